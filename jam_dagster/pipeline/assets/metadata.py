"""Metadata of assets: schemas, lineage, tables and pictures.

Nothing here looks at a private table. These functions are given the domain, what the
mechanism released, or public.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from jam_dagster.common.shown_text import one_line
from jam_dagster.pipeline.markdown import literal
from jam_dagster.tables import Domain

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.evaluation import Verdict
    from jam_dagster.mechanisms import Round, Transcript

PREVIEW_ROWS = 8


def column_schema(
    domain: Domain, *, coded: bool = False, derived: bool = False, linked_by: str = ""
) -> dg.TableSchema:
    """Describe the columns of a table over `domain`, as values or as integer codes.

    One of two synthetic tables has the column `linked_by`, too.
    """
    columns = {
        attribute.name: dg.TableColumn(
            name=attribute.name,
            type=f"code 0 to {attribute.size - 1}" if coded else str(attribute.dtype),
            description=literal(attribute.describe()),
            constraints=dg.TableColumnConstraints(nullable=attribute.has_gaps and not coded),
        )
        for attribute in domain.attributes
    }
    if not derived:
        return dg.TableSchema(columns=list(columns.values()))
    for one in domain.derived:
        columns[one.name] = dg.TableColumn(
            name=one.name,
            type=domain.columns[one.name],
            description=literal(one.described),
        )
    whole = dg.TableColumnConstraints(nullable=False)
    same = f"rows of the two tables with the same {literal(linked_by)} belong together"
    said = f"whole numbers from 1: {same}"
    own = [dg.TableColumn(linked_by, "int64", said, whole)] if linked_by else []
    return dg.TableSchema(columns=[*own, *(columns[name] for name in domain.columns)])


def observed_schema(table: pd.DataFrame) -> dg.TableSchema:
    """Describe the columns of a public table as they are."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=str(name),
                type=str(column.dtype),
                constraints=dg.TableColumnConstraints(nullable=bool(column.isna().any())),
            )
            for name, column in table.items()
        ]
    )


def column_lineage(
    columns: Mapping[str, Iterable[str]], upstream: Sequence[dg.AssetKey]
) -> dg.TableColumnLineage:
    """Say which columns of every upstream table each column comes from."""
    return dg.TableColumnLineage(
        deps_by_column={
            name: [dg.TableColumnDep(key, one) for key in upstream for one in sources]
            for name, sources in columns.items()
        }
    )


def domain_table(domain: Domain) -> dg.TableMetadataValue:
    """Return one row an attribute, as wide as fits next to its name in Dagster's UI."""
    return dg.MetadataValue.table(
        records=[
            dg.TableRecord(
                {
                    "attribute": one_line(attribute.name),
                    "values": one_line(f"{attribute.size} cells: {attribute.describe()}"),
                }
            )
            for attribute in domain.attributes
        ]
    )


def rounds_table(transcript: Transcript) -> dg.TableMetadataValue:
    """Return one row a round: what was measured where, and what it cost.

    As many columns as fit next to their name in Dagster's UI; the transcript has all.
    """
    return dg.MetadataValue.table(
        records=[
            dg.TableRecord(
                {
                    "round": one.index + 1,
                    "percent": round(
                        100 * (one.rho_select + one.rho_measure) / transcript.rho_budget, 2
                    ),
                    "measured": _measured(one),
                    "clique": one_line(" x ".join(one.clique)),
                }
            )
            for one in transcript.rounds
        ],
        schema=dg.TableSchema(
            columns=[
                dg.TableColumn("round", "number", "The round, from 1."),
                dg.TableColumn(
                    "percent", "number", "The cost of selection and measurement in the run's rho."
                ),
                dg.TableColumn(
                    "measured",
                    "string",
                    "Public: on the public table, for free. ±: on the private table, with noise of"
                    " this standard deviation in each cell, in records. Lost: charged, and lost"
                    " to a crash.",
                ),
                dg.TableColumn("clique", "string", "The marginal that was selected."),
            ]
        ),
    )


def _measured(one: Round) -> str:
    """State where a round measured, or with what noise, or that it lost its measurement."""
    if one.measurement is None:
        return "lost"
    return one.origin if one.source == "public" else f"± {one.sigma:,.1f}"


def sampling_error_metadata(mean: float, maximum: float) -> dict[str, dg.MetadataValue]:
    """Return how far a synthetic table is from its model, as numbers, and what they mean."""
    return {
        "sampling_error_mean": dg.MetadataValue.float(float(f"{mean:.6g}")),
        "sampling_error_maximum": dg.MetadataValue.float(float(f"{maximum:.6g}")),
        "sampling_error_is": dg.MetadataValue.text(
            "Mean and maximum over the measured marginals of ||synthetic - model||_1 / n: the error"
            " of rounding the fitted model to whole rows. It is not an error against private data."
        ),
    }


def listed(texts: Iterable[str]) -> dg.MarkdownMetadataValue:
    """Return texts as a list in Markdown, each as it is."""
    return dg.MetadataValue.md("\n".join(f"- {literal(one)}" for one in texts))


def verdict_metadata(verdict: Verdict) -> dict[str, Any]:
    """Return the headline of a verdict, and what else it says as a list."""
    headline, *others = verdict.sentences
    return {"verdict": one_line(headline)} | ({"verdict_notes": listed(others)} if others else {})


def preview(frame: pd.DataFrame) -> dg.MarkdownMetadataValue:
    """Return the first rows of a releasable table as Markdown."""
    head = frame.head(PREVIEW_ROWS).astype("object")
    head = head.where(head.notna(), "")
    lines = [_row(head.columns), "| " + " | ".join(["---"] * len(head.columns)) + " |"]
    lines += [_row(values) for values in head.itertuples(index=False)]
    return dg.MetadataValue.md("\n".join(lines))


def pictures(images: Mapping[str, bytes]) -> dg.MarkdownMetadataValue:
    """Return PNG images, by title, that need no server: data URIs in Markdown."""
    return dg.MetadataValue.md(
        "\n\n".join(
            (f"**{literal(title)}**\n\n" if len(images) > 1 else "")
            + f"![{literal(title)}](data:image/png;base64,{_packed(png)})"
            for title, png in images.items()
        )
    )


def _packed(png: bytes) -> str:
    """Return the same image with its pixels compressed well, in base64.

    The renderer compresses fast, not well; the event log keeps what it is given, a fifth of it
    this way.
    """
    packed, pixels, at = [png[:8]], b"", 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        chunk, at = png[at : at + 12 + length], at + 12 + length
        if chunk[4:8] == b"IDAT":
            pixels += chunk[8:-4]
        else:
            packed.append(chunk)
    body = b"IDAT" + zlib.compress(zlib.decompress(pixels), 9)
    packed.insert(-1, struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body)))
    return base64.b64encode(b"".join(packed)).decode()


def _row(cells: Iterable[Any]) -> str:
    return "| " + " | ".join(literal(str(cell)) for cell in cells) + " |"


def tidy(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata whose numbers have six digits, for people to read."""
    return {
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in metadata.items()
    }

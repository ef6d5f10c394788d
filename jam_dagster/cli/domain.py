"""`jam-dagster domain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from jam_dagster.cli.console import group, print_json, source, tell
from jam_dagster.cli.options import AsJson
from jam_dagster.errors import InputError

app = group("The attributes of the tables and their values.")


@app.command()
def draft(
    public: Annotated[
        str,
        typer.Option(
            metavar="TABLE",
            help="The public table, a .csv or .parquet file, or a source in JSON, such as "
            """'{"csv": "people.csv", "separator": ";"}', or of two tables """
            """'{"roots": "households.csv", "children": {"persons": {"source": "persons.csv", """
            """"key": "household_id", "max": 6}}}'.""",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The domain file, .yaml or .json.")],
    private: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="The private table, whose values then enter the domain. Only with --research.",
        ),
    ] = None,
    research: Annotated[
        bool,
        typer.Option(
            "--research",
            help="Accept that a domain with private values, and all that is made with it, may "
            "not leave.",
        ),
    ] = False,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these columns of the public table.")
    ] = None,
    exclude: Annotated[
        str, typer.Option(metavar="A,B", help="Not these columns of the public table.")
    ] = "",
    infer: Annotated[
        bool,
        typer.Option(
            help="Derive keys, and columns that others determine in every row of the public table, "
            "instead of proposing it in comments.",
        ),
    ] = True,
    bins: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Bins of equal width of a numeric attribute, as in the papers; without it, bins "
            "follow the public table, or are 32 with --research.",
        ),
    ] = None,
    other: Annotated[
        str,
        typer.Option(
            help="The value that stands for all that the public table does not hold, where fewer "
            "than five public rows have one of the column's values."
        ),
    ] = "other",
    no_other: Annotated[
        bool,
        typer.Option(
            "--no-other", help="Do not add it: a value that is not listed is then an error."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Draft a domain file from the public table, for you to correct.

    ```
    jam-dagster domain draft --public survey.csv --out domain.yaml
    ```

    Separator, encoding and decimal mark of a CSV file are found from its lines, unless the source
    states them; the command says which, for you to state them of the release. Categories are the
    values observed, numbers are cut into bins between the least and the largest observed, with
    about equally many rows in each. Further values of the private table go to `other`, or
    are missing in a column without rare values; numbers are moved to the bounds, and a cell that
    cannot be read is missing. Columns that cannot be modelled, such as names and free text, are
    missing in every synthetic row; a comment in the file says why. Synthetic rows are repaired to
    keep the rules that all public rows keep, such as an order of two columns. Declare what you know
    better, from a code book and never from the private table, and combinations that cannot be:

    ```
    attributes:
      age: {edges: [0, 15, 25, 45, 65, 120], integer: true, outside: clip}
      marital-status: {values: [Single, Married, Widowed, other], other: other}
    impossible:
      - {age: {below: 15}, marital-status: [Married, Widowed]}
    ```

    The papers' way, which reads the private values as well:

    ```
    jam-dagster domain draft --public pub.csv --private priv.csv --research --out domain.yaml
    ```
    """
    from jam_dagster.common.redaction import redacted
    from jam_dagster.tables import DraftedDomain, draft_domain, draft_table, wide_attributes
    from jam_dagster.tables.drafting.draft import chosen_columns, names_in
    from jam_dagster.tables.drafting.person_keys import unit_remark
    from jam_dagster.tables.sources.csv import unnamed_columns
    from jam_dagster.tables.sources.public import draft_with_children
    from jam_dagster.tables.sources.sniffing import drafted_source, marks_remark

    if private is not None and not research:
        raise InputError(
            "--private puts private values into the domain, and nothing made with it may leave: "
            "drop --private, or accept that with --research."
        )
    if research and private is None:
        raise InputError("--research is for domains with private values: add --private TABLE.")
    if out.suffix not in (".yaml", ".yml", ".json"):
        raise InputError(f"--out {out}: a domain file ends in .yaml, .yml or .json.")
    if out.is_dir():
        raise InputError(f"--out {out} is a folder: name a file in it.")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: the folder {out.parent} does not exist.")
    public_source, found = drafted_source(public)
    public_records = public_source.read(private=False)
    names, without = names_in(columns), names_in(exclude) or ()
    link = public_source.linked
    if link is not None and private is not None:
        raise InputError("--research drafts the domain of one table: draft each by itself.")
    chosen = None if link is not None else chosen_columns(public_records.columns, names, without)
    options: dict[str, Any] = {
        "bins": bins,
        "other": None if no_other else other,
        "infer": infer,
    }
    if link is not None:
        draft = draft_with_children(
            {"": public_records}, link, columns=names, exclude=without, **options
        )
    elif private is None:
        draft = draft_table(public_records, columns=chosen, **options)
    else:
        with redacted("reading the private table"):
            private_records = source(private).read(private=True)
        with redacted("drafting the domain"):
            domain = draft_domain(
                public_records, private=private_records, columns=chosen, bins=bins
            )
        draft = DraftedDomain(domain, ())
    if public_source.is_shifted:
        draft = draft.without_shift_advice()
    draft.save(out)
    domain = draft.domain
    count = len(domain.names)
    said = (
        draft.headline,
        found,
        unnamed_columns(public_source),
        marks_remark(public_source),
        draft.remark,
        draft.hint,
        wide_attributes(domain),
        unit_remark(public_records) if link is None else "",
    )
    remarks = list(filter(None, said))
    if as_json:
        print_json(
            {
                "file": str(out),
                "attributes": count,
                "cells": domain.cells_text,
                "remarks": remarks,
                "restricted": domain.restricted,
            }
        )
        return
    tell(f"{count} attribute{'s' if count != 1 else ''}, {domain.cells_text} cells: {out}")
    for remark in remarks:
        tell(remark)
    if domain.restricted:
        tell("It holds private values: neither it nor what is made with it may leave.")

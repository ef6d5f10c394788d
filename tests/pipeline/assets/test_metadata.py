import base64
import re
import struct
import zlib

import dagster as dg
import pandas as pd

from jam_dagster.pipeline.assets.metadata import (
    PREVIEW_ROWS,
    column_lineage,
    column_schema,
    domain_table,
    pictures,
    preview,
    rounds_table,
)
from jam_dagster.tables import CategoricalAttribute
from tests.nasty import NASTY, nasty_table
from tests.pipeline.conftest import DOMAIN
from tests.pipeline.storage.test_io_manager import a_run


def test_schema_tells_values_or_codes() -> None:
    values = {column.name: column for column in column_schema(DOMAIN).columns}
    assert list(values) == list(DOMAIN.names)
    assert values["sex"].type == "str"
    assert values["sex"].description == "one of F, M"
    assert values["age"].type == "Int64"
    assert values["age"].constraints.nullable
    codes = {column.name: column for column in column_schema(DOMAIN, coded=True).columns}
    assert codes["age"].type == "code 0 to 5"
    assert not codes["age"].constraints.nullable


def test_attributes_are_told_in_words() -> None:
    assert DOMAIN.attribute("age").describe() == "integer from 0 to 100 in 5 bins, or null"
    many = CategoricalAttribute("code", tuple(range(12)), nullable=True)
    assert many.describe() == "one of 12 values: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..., or null"
    few = CategoricalAttribute("code", (0, 1), nullable=True)
    assert few.describe() == "one of 0, 1, or null"
    assert domain_table(DOMAIN).records[0].data["attribute"] == "sex"


def test_lineage_leads_to_the_columns_of_every_upstream_table() -> None:
    upstream = [dg.AssetKey("private"), dg.AssetKey("public")]
    lineage = column_lineage({"job": ["job"], "age": ["one", "two"]}, upstream).deps_by_column
    assert lineage["job"] == [dg.TableColumnDep(key, "job") for key in upstream]
    assert [one.column_name for one in lineage["age"]] == ["one", "two"] * 2


def test_rounds_tell_what_was_measured_where_and_at_what_cost() -> None:
    transcript = a_run().transcript
    (first,) = transcript.rounds
    object.__setattr__(first, "rho_select", 0.1234567 * transcript.rho_budget)
    object.__setattr__(first, "rho_measure", 0.2 * transcript.rho_budget)
    object.__setattr__(first, "sigma", 1234.56)
    for source, measured in (("private", "± 1,234.6"), ("public", "public")):
        object.__setattr__(first, "source", source)
        (record,) = rounds_table(transcript).records
        assert record.data == {
            "round": 1,
            "clique": "sex x age",
            "percent": 32.35,
            "measured": measured,
        }
    object.__setattr__(first, "measurement", None)
    (record,) = rounds_table(transcript).records
    assert record.data["measured"] == "lost"


def test_preview_is_a_markdown_table() -> None:
    table = pd.DataFrame({"a|b": ["x|y", None], "c": [1, 2]})
    assert preview(table).value.splitlines() == [
        "| a\\|b | c |",
        "| --- | --- |",
        "| x\\|y | 1 |",
        "|  | 2 |",
    ]


def test_a_preview_shows_names_and_values_as_they_are() -> None:
    lines = preview(nasty_table(20, 0)).value.splitlines()
    assert len(lines) == 2 + PREVIEW_ROWS
    for line in (lines[0], *lines[2:]):
        # As many cells as columns, and nothing in them that opens a link, an image or a tag.
        assert len(re.findall(r"(?<!\\)\|", line)) == len(NASTY) + 1
        assert not re.search(r"(?<!\\)[\[<`*]", line)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def test_picture_is_packed_without_loss() -> None:
    pixels = b"".join(b"\0" + bytes(range(200)) * 3 for _ in range(200))
    fast = zlib.compress(pixels, 1)
    header = struct.pack(">IIBBBBB", 200, 200, 8, 2, 0, 0, 0)
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    # The renderer may cut the pixels into several chunks.
    image += chunk(b"IDAT", fast[:100]) + chunk(b"IDAT", fast[100:]) + chunk(b"IEND", b"")

    shown = pictures({"A title": image}).value
    assert shown.startswith("![A title](data:image/png;base64,")
    packed = base64.b64decode(shown.split("base64,")[1].rstrip(")"))

    assert len(packed) < len(image)
    head = len(image[:8]) + 25
    assert packed[:head] == image[:head]
    (length,) = struct.unpack_from(">I", packed, head)
    body = packed[head + 8 : head + 8 + length]
    assert zlib.decompress(body) == pixels
    assert packed == image[:head] + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def test_several_pictures_are_titled() -> None:
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    assert pictures({"one": image, "two": image}).value.startswith("**one**\n\n![one](")

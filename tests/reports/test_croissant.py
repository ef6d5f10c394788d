"""Croissant metadata: the fields that its specification requires, and the certificate behind it.

`mlcroissant validate` of mlcroissant 1.1.1 accepted such a document, and read rows by it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jam_dagster.errors import InputError
from jam_dagster.reports.croissant import _addresses, _record_sets, croissant
from jam_dagster.tables import Domain
from jam_dagster.tables.domain.children import Link
from jam_dagster.tables.sources.dialect import SAYS_SYNTHETIC
from tests.certificates.conftest import Released
from tests.certificates.conftest import made as made

REQUIRED = {
    *("@context", "@type", "conformsTo", "description", "license", "name", "url", "creator"),
    *("datePublished", "distribution"),
}


def metadata(released: Released, out: str = "croissant.json") -> dict[str, Any]:
    document = croissant(
        released.folder,
        released.folder / out,
        url="https://example.org/people",
        license="https://spdx.org/licenses/CC0-1.0",
        creators=["An office"],
        published="2026-05-03",
    )
    return json.loads(json.dumps(document))


def test_the_required_fields_are_there(made: Released) -> None:
    document = metadata(made)

    assert document.keys() >= REQUIRED
    assert document["@type"] == "sc:Dataset"
    assert document["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    prefixes = {name for name, value in document["@context"].items() if name[0] != "@"}
    used = {key.partition(":")[0] for key in document if ":" in key}
    assert used <= prefixes


def test_files_and_fields_are_those_of_the_release(made: Released) -> None:
    document = metadata(made)

    for file in document["distribution"]:
        content = (made.folder / file["contentUrl"]).read_bytes()
        assert file["sha256"] == hashlib.sha256(content).hexdigest()
    table = pd.read_csv(made.folder / document["distribution"][0]["contentUrl"])
    (rows,) = document["recordSet"]
    assert [one["source"]["extract"]["column"] for one in rows["field"]] == list(table)
    assert {one["dataType"] for one in rows["field"]} == {"sc:Integer"}
    assert f"{len(table):,} rows" in document["description"]
    assert document["distribution"][0]["description"] == SAYS_SYNTHETIC
    assert "synthetic data" in document["keywords"]


def test_children_refer_to_the_rows_that_they_belong_to() -> None:
    link = Link("persons", "household", 3)
    domain = Domain.from_sizes({"region": 2}).with_children(link, Domain.from_sizes({"job": 3}))

    owners, owned = _record_sets(domain, ["synthetic.csv", "children.csv"])

    assert [one["name"] for one in owners["field"]] == ["household", "region"]
    assert [one["name"] for one in owned["field"]] == ["household", "job"]
    assert owned["field"][0]["references"] == {"field": {"@id": owners["field"][0]["@id"]}}
    assert owned["field"][1]["source"]["fileObject"] == {"@id": "children.csv"}


def test_children_that_are_called_rows_are_other_rows() -> None:
    link = Link("rows", "household", 3)
    domain = Domain.from_sizes({"region": 2}).with_children(link, Domain.from_sizes({"job": 3}))

    sets = _record_sets(domain, ["synthetic.csv", "rows.csv"])

    assert len({one["@id"] for one in sets}) == 2
    assert len({field["@id"] for one in sets for field in one["field"]}) == 4


def test_a_certificate_without_a_table_has_no_metadata(made: Released) -> None:
    files = made.certificate.files
    rest = {name: one for name, one in files.items() if name != "table"}
    replace(made.certificate, files=rest).save(made.folder)

    with pytest.raises(InputError, match="the certificate names no table"):
        metadata(made)


def test_files_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    paths = [tmp_path / "records" / "may.parquet", tmp_path / "persons" / "may.parquet"]

    assert _addresses(paths, tmp_path / "croissant.json") == [
        "records/may.parquet",
        "persons/may.parquet",
    ]


def test_the_provenance_is_the_certificate(made: Released) -> None:
    document = metadata(made)

    proof = document["prov:wasGeneratedBy"]["subjectOf"]["@id"]
    (file,) = (one for one in document["distribution"] if one["@id"] == proof)
    assert (made.folder / file["contentUrl"]).name == "certificate.json"


def test_paths_start_from_the_metadata(made: Released) -> None:
    document = metadata(made, "../croissant.json")

    assert document["distribution"][0]["contentUrl"] == "out/synthetic.csv"


@pytest.mark.parametrize("out", ["../public/croissant.json", "../outside.d/../x/croissant.json"])
def test_no_path_names_folders_around_the_release(made: Released, out: str) -> None:
    with pytest.raises(InputError, match="would name other folders of this machine"):
        metadata(made, out)


def test_what_may_not_leave_is_not_described(made: Released) -> None:
    replace(made.certificate, noise="numpy").save(made.folder)

    with pytest.raises(InputError, match="the run may not leave"):
        metadata(made)


def test_a_table_that_was_altered_is_not_described(made: Released) -> None:
    path = Path(made.folder, "synthetic.csv")
    path.write_text(path.read_text() + "\n")

    with pytest.raises(InputError, match="was altered"):
        metadata(made)

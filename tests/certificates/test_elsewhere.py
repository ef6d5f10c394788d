"""A release that another processor made is verified here, by its ledger and its public table."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from jam_dagster.certificates import verify
from jam_dagster.privacy import Ledger
from jam_dagster.tables import CsvSource
from tests.certificates.elsewhere import RELEASES, names
from tests.tiers import first_quick


@pytest.mark.parametrize("name", first_quick(names()))
def test_a_release_of_another_processor_is_verified(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(RELEASES / f"{name}.zip") as file:
        file.extractall(tmp_path)
    public = CsvSource(str(tmp_path / "pub.csv"))
    found = verify(tmp_path / "out", ledger=Ledger(tmp_path / "ledger.db"), public=public)
    assert [(one.name, one.message) for one in found if not (one.passed and one.checked)] == []


def test_every_mechanism_that_makes_a_table_has_one() -> None:
    assert sorted(path.stem for path in RELEASES.glob("*.zip")) == names()

"""Whom a release trusts: this package always, another one by name only."""

from __future__ import annotations

from pathlib import Path

import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import MECHANISMS
from jam_dagster.mechanisms.trust import distrust, read_trusted
from tests.other_package import install, known


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_of_this_package_need_no_trust(name: str) -> None:
    assert distrust(name, ()) is None


def test_another_package_is_trusted_by_its_name(tmp_path: Path) -> None:
    with known(install(tmp_path)):
        assert distrust("halves", ["tiny-mechanisms"]) is None
        assert distrust("halves", ["other", "Tiny_Mechanisms"]) is None
        for trusted in ((), ["halves"], ["tiny"], ["jam-dagster"], ["tiny_mechanisms:Halves"]):
            assert distrust("halves", trusted) == (
                "the mechanism halves comes from the package tiny-mechanisms 1.2.3, which this "
                "release does not trust by name"
            )


@pytest.mark.parametrize("given", ["tiny-mechanisms", None, [3], {"tiny-mechanisms": True}])
def test_who_is_trusted_is_a_list_of_names(given: object) -> None:
    with pytest.raises(SpecificationError, match="must be a list of names of packages"):
        read_trusted(given)

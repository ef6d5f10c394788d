"""The mutation gate itself: `make mutants` runs it whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.catalog import MUTANTS
from tests.mutants.planting import ROOT, Mutant, StaleMutantError, verdict

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def test_names_are_unique_and_the_list_is_long() -> None:
    assert len(BY_NAME) == len(MUTANTS) >= 15


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_still_applies(mutant: Mutant) -> None:
    changed = mutant.changed()
    assert changed != (ROOT / mutant.path).read_text()
    compile(changed, mutant.path, "exec")
    for test in mutant.tests:
        path, *name = test.split("::")
        if path.startswith("tests/"):
            assert (ROOT / path).exists(), path
        if name:
            assert f"def {name[0]}(" in (ROOT / path).read_text(), test


def test_a_mutant_whose_text_is_gone_fails_loudly(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("x = 1\nx = 1\n")
    for old in ("y = 2", "x = 1"):
        mutant = Mutant("stale", "none", "module.py", old, "", ())
        with pytest.raises(StaleMutantError, match="not once"):
            mutant.changed(tmp_path)


@pytest.mark.slow
def test_tests_that_prove_nothing_miss_a_mutant() -> None:
    mutant = BY_NAME["l1-by-column"]
    harmless = Mutant(
        mutant.name, mutant.bug, mutant.path, mutant.old, f"{mutant.old}  #", mutant.tests
    )
    assert not verdict(harmless).noticed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["score-sensitivity-2", "selection-not-charged", "l1-by-column"])
def test_a_mutant_is_noticed(name: str) -> None:
    assert verdict(BY_NAME[name]).noticed

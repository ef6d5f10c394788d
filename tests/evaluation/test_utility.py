"""Train on synthetic, test on real."""

import numpy as np
import pytest

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.evaluation import utility
from jam_dagster.evaluation.utility import check_target, target_utility
from jam_dagster.tables import Domain, EncodedTable, PublicTables

DOMAIN = Domain.from_sizes({"cause": 4, "effect": 4, "other": 3})


def table(seed: int, shift: int, records: int = 400) -> EncodedTable:
    """Return records whose effect is their cause plus a shift."""
    rng = np.random.default_rng(seed)
    cause, other = rng.integers(0, 4, records), rng.integers(0, 3, records)
    return EncodedTable(DOMAIN, (cause, (cause + shift) % 4, other))


def test_what_holds_in_a_table_is_learnt_from_it():
    found = target_utility(table(0, 1), table(1, 1), table(2, 2), "effect")
    assert found is not None
    assert found.scores["synthetic"].accuracy == 1.0
    assert found.scores["private"].balanced == 1.0
    # Its rule is another one.
    assert found.scores["public"].accuracy == 0.0
    assert found.scores["majority"].balanced == 0.25
    assert 0.15 < found.scores["majority"].accuracy < 0.35
    assert target_utility(table(0, 1), table(1, 1), table(2, 2), "effect") == found


def test_a_table_of_one_value_predicts_it_and_several_public_ones_are_left_out():
    constant = EncodedTable(DOMAIN, tuple(np.full(5, 2) for _ in range(3)))
    several = PublicTables(DOMAIN, {"one": table(2, 2), "two": table(3, 2)})
    found = target_utility(table(0, 1), constant, several, "effect")
    assert found is not None
    assert found.scores["synthetic"].balanced == 0.25
    assert "public" not in found.scores
    assert target_utility(table(0, 1, records=1), constant, None, "effect") is None


def test_a_target_that_cannot_be_measured_is_refused(monkeypatch: pytest.MonkeyPatch):
    check_target("effect", DOMAIN)
    with pytest.raises(SpecificationError, match=r"'income' is no column.*cause, effect, other"):
        check_target("income", DOMAIN)
    with pytest.raises(SpecificationError, match="only column"):
        check_target("cause", Domain.from_sizes({"cause": 2}))
    monkeypatch.setattr(utility, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"jam-dagster\[utility\].*Nothing was charged"):
        check_target("effect", DOMAIN)

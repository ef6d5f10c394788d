"""Sections say what is wrong in words: the key, what it may be, and what it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import SpecificationError
from jam_dagster.release import DomainSpec, EvaluationSpec, PrivacySpec, UnitSpec, WorkloadSpec

WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "zero": (
        PrivacySpec,
        {"epsilon": 0},
        "privacy.epsilon must be a number, above 0, got 0.",
    ),
    "a truth": (PrivacySpec, {"epsilon": True}, "privacy.epsilon must be a number, above 0"),
    "a text": (PrivacySpec, {"epsilon": "much"}, "above 0, got 'much'."),
    "no number": (PrivacySpec, {"epsilon": float("nan")}, "above 0, got nan."),
    "beyond floats": (PrivacySpec, {"epsilon": 10**400}, "privacy.epsilon must be a number"),
    "an interval": (
        PrivacySpec,
        {"epsilon": 1, "delta": 2},
        "privacy.delta must be a number, above 0 and below 1, got 2.",
    ),
    "a choice": (
        PrivacySpec,
        {"epsilon": 1, "noise": "laplace"},
        "privacy.noise must be one of exact, numpy, got 'laplace'.",
    ),
    "a fraction": (
        PrivacySpec,
        {"epsilon": 1, "noise": "numpy", "seed": 2.5},
        "privacy.seed must be a whole number, at least 0, got 2.5.",
    ),
    "a key below": (
        PrivacySpec,
        {"epsilon": 1, "unit": {"column": "who", "max_rows": 0}},
        "privacy.unit.max_rows must be a whole number, at least 1, got 0.",
    ),
    "two faults": (
        UnitSpec,
        {"colum": "who"},
        "privacy.unit needs the key 'column' (--privacy-unit). privacy.unit has the unknown key",
    ),
    "an empty text": (UnitSpec, {"column": ""}, "must be a text that is not empty, got ''."),
    "a list": (WorkloadSpec, {"cliques": ["age"]}, "workload.cliques must be a list, got 'age'."),
    "no text": (WorkloadSpec, {"\ud800": 2}, "workload has the unknown key of no valid text"),
    "true": (EvaluationSpec, {"mode": True}, "evaluation.mode must be one of"),
    "bins": (DomainSpec, {"identify": "public", "bins": 1}, "domain.bins must be a whole"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_one_sentence_a_key(case: str) -> None:
    section, given_keys, words = WRONG[case]

    with pytest.raises(SpecificationError) as refused:
        section(**given_keys)

    assert words in str(refused.value)
    # Pydantic's own words stay inside.
    assert "validation error" not in str(refused.value)


def test_a_section_is_read_from_a_mapping_and_stays_as_it_is() -> None:
    privacy = PrivacySpec.of({"epsilon": "1", "unit": {"column": "who", "max_rows": "2"}})

    assert privacy == PrivacySpec(epsilon=1.0, unit=UnitSpec(column="who", max_rows=2))
    assert PrivacySpec.of(privacy) is privacy
    with pytest.raises(SpecificationError, match="privacy must be a mapping of epsilon"):
        PrivacySpec.of("1")
    with pytest.raises(Exception, match="frozen"):
        privacy.epsilon = 2.0


def test_a_change_is_validated() -> None:
    assert PrivacySpec(epsilon=1.0).changed(epsilon=2.0).epsilon == 2.0
    with pytest.raises(SpecificationError, match=r"privacy\.epsilon"):
        PrivacySpec(epsilon=1.0).changed(epsilon=0)


@given(epsilon=st.floats(1e-9, 1e9), delta=st.floats(1e-300, 1, exclude_max=True))
def test_numbers_and_their_texts_are_the_same(epsilon: float, delta: float) -> None:
    assert PrivacySpec(epsilon=repr(epsilon), delta=repr(delta)) == PrivacySpec(
        epsilon=epsilon, delta=delta
    )

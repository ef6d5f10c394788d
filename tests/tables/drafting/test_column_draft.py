"""Which columns of texts are drafted as codes by their first characters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from jam_dagster.tables.domain.prefixes import PrefixAttribute
from jam_dagster.tables.drafting.column_draft import draft_codes
from jam_dagster.tables.drafting.draft import draft_domain


def test_the_longest_beginning_of_at_most_60_cells_is_taken() -> None:
    codes = {f"{first:02d}{last:03d}": 5 for first in range(50) for last in range(0, 1000, 250)}
    drafted = draft_codes("postcode", Counter(codes), "other")
    assert drafted is not None
    assert (drafted.prefix, drafted.size, drafted.other) == (2, 51, None)
    assert dict(drafted.weights) == codes
    # A rare code with another beginning is `other`, one with a known beginning counts there.
    drafted = draft_codes("postcode", Counter(codes | {"99001": 1, "00001": 1}), "other")
    assert drafted is not None
    assert drafted.other == "other"
    assert dict(drafted.weights) == codes


@pytest.mark.parametrize(
    "texts",
    [
        {f"{n:09d}": 1 for n in range(500)},  # keys
        {f"N{n}MK": 9 for n in range(100, 300)},  # registrations
        {f"{n:04d}": 9 for n in range(100, 200)} | {"a street": 40},
        {f"{n}": 9 for n in range(1000, 1009)} | {f"{n}": 1 for n in range(2000, 2300)},
    ],
)
def test_keys_names_and_rare_codes_are_none(texts: dict[str, int]) -> None:
    assert draft_codes("text", Counter(texts), "other") is None


def test_a_draft_models_diagnoses_by_their_beginning() -> None:
    rng = np.random.default_rng(0)
    chapters = rng.choice([*"AEIJK"], 3000)
    column = [f"{one}{rng.integers(10, 14)}.{rng.integers(0, 9)}" for one in chapters]
    table = pd.DataFrame({"diagnosis": column, "n": rng.integers(0, 5, 3000)})
    attribute = draft_domain(table).attribute("diagnosis")
    assert isinstance(attribute, PrefixAttribute)
    assert attribute.prefix == 3
    assert attribute.size == 21


def test_no_code_is_a_formula_or_begins_like_other() -> None:
    codes = Counter({f"{first:02d}{last:03d}": 9 for first in range(50) for last in range(7)})
    drafted = draft_codes("postcode", codes | Counter({"-none-": 9, "=1+1": 5}), "other")
    assert drafted is not None
    assert dict(drafted.weights) == codes
    assert drafted.other == "other"
    assert draft_codes("postcode", codes, "0000 or another") is None

"""Texts of private columns are counted each by itself, and unsafe ones are never published."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import DomainError
from jam_dagster.tables import PrivacyUnit
from jam_dagster.tables.codes.texts import LONGEST, published_text
from jam_dagster.tables.sources.frame import FrameSource

SECRET = bytes(range(32))


@pytest.mark.parametrize(
    "cell",
    [
        *(
            "",
            "=cmd()",
            "+1+1",
            "@x",
            "a;=b",
            "a,=b",
            "a\tb",
            "a\nb",
            "\u202egnp",
            "x" * (LONGEST + 1),
            "x" * 5_000,
            "  ",
            " =cmd()",
            "a\x00b",
        ),
        *("\ud800", "\x00", "\u200b"),
    ],
)
def test_unsafe_texts_are_never_published(cell: str) -> None:
    assert published_text(cell) is None


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        *(("F", "F"), (" F\t", "F"), ("f", "f"), (1, "1"), (1.0, "1"), (True, "True")),
        *(("-1.5", "-1.5"), ("\u00e9", "\u00e9"), ("e\u0301", "\u00e9")),
    ],
)
def test_other_cells_have_their_text(cell: object, text: str) -> None:
    assert published_text(cell) == text


def counts(table: pd.DataFrame, unit: PrivacyUnit | None = None) -> dict[str, dict[str, int]]:
    names = [one for one in table if unit is None or one != unit.column]
    return FrameSource(table, name="t").texts(names, unit, SECRET if unit else None)


def test_each_column_has_its_texts_in_their_order() -> None:
    table = pd.DataFrame({"a": ["y", "x", None, "y", "=1+1"], "b": [1, 2, 2, 1, 1]})
    assert counts(table) == {"a": {"x": 1, "y": 2}, "b": {"1": 3, "2": 2}}
    assert list(counts(table)["a"]) == ["x", "y"]
    assert counts(table[:0]) == {"a": {}, "b": {}}


def test_a_column_must_be_there_once() -> None:
    table = pd.DataFrame({"a": ["x"]})
    with pytest.raises(DomainError, match="no column 'b'"):
        FrameSource(table, name="t").texts(["b"], None, None)


PEOPLE = st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from("xyz")), max_size=12)


@given(rows=PEOPLE, mine=st.lists(st.sampled_from("xyz"), max_size=6), k=st.integers(1, 3))
def test_a_person_moves_at_most_k_rows_and_nobody_elses(
    rows: list[tuple[str, str]], mine: list[str], k: int
) -> None:
    unit = PrivacyUnit("who", k)
    others = pd.DataFrame(rows, columns=["who", "a"], dtype=str)
    more = pd.DataFrame([("me", one) for one in mine], columns=["who", "a"], dtype=str)
    before = counts(others, unit)["a"]
    after = counts(pd.concat([more, others], ignore_index=True), unit)["a"]
    moved = {text: after.get(text, 0) - before.get(text, 0) for text in {*before, *after}}
    assert all(number >= 0 for number in moved.values())
    assert sum(moved.values()) == min(k, len(mine))
    # No order of rows decides which stay.
    turned = counts(pd.concat([others[::-1], more[::-1]], ignore_index=True), unit)["a"]
    assert turned == after

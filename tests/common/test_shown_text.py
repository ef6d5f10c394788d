"""What nobody sees in a text is shown, and what everybody reads stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.common.shown_text import one_line, visible
from tests.nasty import NASTY


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\u202eb\u2066c\u200bd\ufeff", "a\\u202eb\\u2066c\\u200bd\\ufeff"),
        ("a\u2028b\x85c\U000e0041", "a\\u2028b\\x85c\\U000e0041"),
        ("two\nlines\tand\rone", "two\nlines\tand\\x0done"),
    ],
)
def test_what_is_unseen_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert one_line(text) == shown.replace("\n", "\\n").replace("\t", "\\t")


@pytest.mark.parametrize(
    "text",
    [
        "marital_status",
        "naïve",
        "\u00a01\u202f234",
        "می\u200cروم",
        "שלום\u200e",
        "日本",
        "👩\u200d🔧",
    ],
)
def test_what_is_read_stays(text: str) -> None:
    assert visible(text) == one_line(text) == text


@pytest.mark.slow
@given(st.text() | st.sampled_from(NASTY))
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    assert not any(ord(one) < 32 or 0x7F <= ord(one) < 0xA0 for one in one_line(text))
    # What was shown once is shown the same again.
    assert one_line(one_line(text)) == one_line(text)

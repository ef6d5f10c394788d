"""Tables of measured figures: every one can be made, and says what its rows say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from docs_build import measured_tables
from docs_build.measured_tables import FOLDER, MARK, entries, lines_of, with_tables

DOCS = FOLDER.parent
MARKED = [
    (page, *mark.groups())
    for page in sorted(DOCS.rglob("*.md"))
    for mark in MARK.finditer(page.read_text(encoding="utf-8"))
]

Made = Callable[..., list[str]]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Return the lines of an entry over rows that are two mechanisms' errors at two epsilons."""
    rows = [
        ("small", "b", 0.1, 0, 0.5, 2.0),
        ("small", "b", 0.1, 1, 0.7, 4.0),
        ("small", "b", 10.0, 0, 0.2, 6.0),
        ("small", "a", 0.1, 0, 0.6, 1.0),
        ("small", "a", 10.0, 0, 0.3, 3.0),
        ("large", "a", 10.0, 0, 0.1, 3.0),
    ]
    columns = ["split", "label", "epsilon", "seed", "error", "seconds"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.setattr(measured_tables, "FOLDER", tmp_path)

    def lines(**entry: Any) -> list[str]:
        return [*lines_of({"source": "rows.csv"} | entry)]

    return lines


def test_a_cell_summarizes_its_rows(made: Made) -> None:
    assert made(
        where="split == 'small'",
        lines={"mechanism": "label", "ε": "epsilon"},
        cells={"error": "{error.mean:.2f}", "most": "{seconds.max:g} of {error.count}"},
        names={"label": {"a": "AIM", "b": "TILT"}},
    ) == [
        "| mechanism | ε | error | most |",
        "| --- | --- | --- | --- |",
        "| AIM | 0.1 | 0.60 | 1 of 1 |",
        "| AIM | 10 | 0.30 | 3 of 1 |",
        "| TILT | 0.1 | 0.60 | 4 of 2 |",
        "| TILT | 10 | 0.20 | 6 of 1 |",
    ]


def test_the_least_is_bold_among_its_like(made: Made) -> None:
    assert made(
        lines={"split": "split", "mechanism": "label"},
        across=["epsilon"],
        cells={"ε = {epsilon}": {"show": "{error.mean:.1f}", "least": ["split", "epsilon"]}},
    ) == [
        "| split | mechanism | ε = 0.1 | ε = 10 |",
        "| --- | --- | --- | --- |",
        "| small | b | **0.6** | **0.2** |",
        "| small | a | **0.6** | 0.3 |",
        "| large | a |  | **0.1** |",
    ]


def test_a_column_may_be_made_of_others(made: Made) -> None:
    by = ["split", "epsilon"]
    assert made(
        lines={"of": "words"},
        columns={"words": "{label} at {epsilon:g}", "minutes": "seconds / 60"},
        over={"ratio": {"column": "seconds", "where": "label == 'b'", "by": by}},
        cells={"minutes": "{minutes.median:.3f}", "ratio": "{ratio.mean:.2f}"},
        where="split == 'small'",
    ) == [
        "| of | minutes | ratio |",
        "| --- | --- | --- |",
        "| b at 0.1 | 0.050 | 1.00 |",
        "| b at 10 | 0.100 | 1.00 |",
        "| a at 0.1 | 0.017 | 0.33 |",
        "| a at 10 | 0.050 | 0.50 |",
    ]


def test_one_value_is_refused_if_there_are_several(made: Made) -> None:
    with pytest.raises(ValueError, match="unpack"):
        made(lines={"mechanism": "label"}, cells={"error": "{error:.1f}"})


def test_every_table_of_a_page_can_be_made_and_every_entry_has_its_page() -> None:
    for page, file, entry in MARKED:
        lines = [*lines_of(entries(file)[entry])]
        assert len(lines) > 2, (page, entry)
        assert len({line.count("|") for line in lines}) == 1, (page, entry)
        assert file == page.stem
    known = {(file.stem, name) for file in FOLDER.rglob("*.yaml") for name in entries(file.stem)}
    assert known == {(file, entry) for _, file, entry in MARKED}


def test_a_page_names_the_file_that_its_table_comes_from() -> None:
    for page, file, entry in MARKED:
        source = entries(file)[entry].get("source", [])
        text = page.read_text(encoding="utf-8")
        for one in [source] if isinstance(source, str) else source:
            assert one in text, (page, entry)


def test_a_mark_becomes_its_table_and_a_link_within_a_sentence_stays() -> None:
    link = "[Table: rates](../measurements/tables/tilt.yaml#wrong)"
    text = with_tables(f"See {link}.\n\n{link}\n")
    assert text.startswith(f"See {link}.\n\n| public table | ε = 0.1 |")
    assert re.search(r"\| titanic, values reversed \| 1\.04 \| 1\.08 \| 0\.93 \|", text)

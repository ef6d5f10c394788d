"""Tables of measured figures, which the site makes from their rows in docs/measurements.

A line of a page that is one link, ``[Words](measurements/tables/PAGE.yaml#ENTRY)``, becomes the
table of that entry. An entry with ``rows`` is the record of a measurement, shown as it is below its
``head``; further keys say how it was made. Any other says how a table follows from files of rows:

``source``
    A file of docs/measurements, or several.
``where``
    The rows that count, as `DataFrame.query` has it.
``of``
    What of `FRAMES` makes the rows of the table from these.
``columns``
    New columns: formats of a row's values, or what `DataFrame.eval` makes of them.
``over``
    New columns that divide a ``column`` by its mean in the rows ``where``, alike in ``by``.
``names``
    Words for the values of a column, in the order of the table, unless they are numbers.
``lines``, ``across``
    Columns: by their heads, those whose values decide the line; and those that decide the column.
``cells``
    By heads, which may name values of ``across``: what is shown of a cell's rows.
    ``{error.mean:.3f}`` is their mean error, ``{error:g}`` the one that all have. Instead of this
    text, ``show`` with a ``where`` of its own; with ``each``, a column, for each value of which it
    is shown; or with ``least``: among cells of the same values in these columns, the least is bold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from benchmarks import census, error_study, intervals, previous_release, relations, tilt_ratio
from jam_dagster.trials.measures import main_runs, ratios, searched
from jam_dagster.trials.tables import Table

FOLDER = Path(__file__).parents[1] / "docs" / "measurements"

MARK = re.compile(r"^\[[^\]]+\]\((?:\.\./)*measurements/tables/(\w+)\.yaml#(\w+)\)$", re.M)
"""A line of a page that becomes a table."""

Entry = Mapping[str, Any]


class _Texts(yaml.SafeLoader):
    """Reads all scalars as texts, so that figures keep their digits; ``<<`` merges as usual."""


_Texts.yaml_implicit_resolvers = {"<": yaml.SafeLoader.yaml_implicit_resolvers["<"]}


def with_tables(markdown: str) -> str:
    """Return a page's text with a table in place of each line that names one."""
    return MARK.sub(lambda mark: "\n".join(lines_of(entries(mark[1])[mark[2]])), markdown)


@cache
def entries(page: str) -> dict[str, Entry]:
    """Return the entries of a page."""
    text = (FOLDER / "tables" / f"{page}.yaml").read_text(encoding="utf-8")
    found: dict[str, Entry] = yaml.load(text, Loader=_Texts)  # noqa: S506, it is a safe one
    return found


def lines_of(entry: Entry) -> Iterator[str]:
    """Return the lines of the table of an entry, as Markdown."""
    if "rows" in entry:
        return Table("", entry["head"], entry["rows"]).markdown()
    return _table(entry, _frame(entry)).markdown()


def _compared(frame: pd.DataFrame) -> pd.DataFrame:
    first, second = (group for _, group in error_study.with_settings(frame).groupby("label"))
    return error_study.compare(first, second)


def _over_aim(frame: pd.DataFrame) -> pd.DataFrame:
    found = ratios(main_runs(searched(frame)))
    return found.reset_index().melt(["label", "of"], var_name="epsilon", value_name="ratio")


FRAMES: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "searched": searched,
    "compared": _compared,
    "over_aim": _over_aim,
    "over_others": tilt_ratio.ratios,
    "series": previous_release.summarize,
    "held": intervals.summarize,
    "of_all": relations.of_all,
    "forecasts": census.forecasts,
    "law": census.law,
}
"""Errors as a release has them, two settings side by side, errors over others; means of studies."""


def _frame(entry: Entry) -> pd.DataFrame:
    """Return the rows of an entry, with the columns that its table needs."""
    named = entry["source"]
    files = [FOLDER / one for one in ([named] if isinstance(named, str) else named)]
    frame = pd.concat(
        [pd.read_csv(one) if one.suffix == ".csv" else pd.read_parquet(one) for one in files],
        ignore_index=True,
    )
    if "where" in entry:
        frame = frame.query(entry["where"])
    if "of" in entry:
        frame = FRAMES[entry["of"]](frame)
    frame = frame.copy()
    for name, made in entry.get("columns", {}).items():
        if "{" in made:
            frame[name] = [made.format_map(row) for row in frame.to_dict("records")]
        else:
            frame[name] = frame.eval(made)
    for name, to in entry.get("over", {}).items():
        others = frame.query(to["where"]).groupby(to["by"])[to["column"]].mean().rename(name)
        frame = frame.join(others, on=to["by"])
        frame[name] = frame[to["column"]] / frame[name]
    words = entry.get("names", {})
    keys = {*entry["lines"].values(), *entry.get("across", []), *words}
    return frame.assign(**{key: _in_words(frame[key], words.get(key, {})) for key in keys})


def _in_words(values: pd.Series[Any], names: Mapping[str, str]) -> pd.Series[Any]:
    """Return values as words that sort as numbers do, or as the names, with others after these."""
    numeric = pd.api.types.is_numeric_dtype(values)
    known = values.drop_duplicates()
    known = known.sort_values() if numeric else known
    form = ("g" if pd.api.types.is_float_dtype(values) else ",") if numeric else ""
    words = {value: names.get(str(value), format(value, form)) for value in known}
    order = dict.fromkeys([*(() if numeric else names.values()), *words.values()])
    return pd.Series(pd.Categorical(values.map(words), list(order), ordered=True), values.index)


@dataclass
class _Cell:
    """The place of a cell, what decides it, and its text."""

    line: tuple[str, ...]
    head: str
    keys: Mapping[str, str]
    text: str


class _Values:
    """The values of a column in the rows of a cell, in formats."""

    def __init__(self, values: pd.Series[Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        return getattr(self._values, name)()

    def __format__(self, form: str) -> str:
        (value,) = self._values.unique()
        return format(value, form)


def _table(entry: Entry, frame: pd.DataFrame) -> Table:
    cells = [
        cell
        for head, shown in entry["cells"].items()
        for cell in _cells(entry, frame, head, {"show": shown} if isinstance(shown, str) else shown)
    ]
    heads = dict.fromkeys(cell.head for cell in cells)
    texts = {(cell.line, cell.head): cell.text for cell in cells}
    lines = (
        frame[[*entry["lines"].values()]].drop_duplicates().sort_values([*entry["lines"].values()])
    )
    rows = [
        [*line, *(texts.get((line, head), "") for head in heads)]
        for line in lines.itertuples(index=False, name=None)
        if any((line, head) in texts for head in heads)
    ]
    return Table("", [*entry["lines"], *heads], rows)


def _cells(entry: Entry, frame: pd.DataFrame, head: str, how: Mapping[str, Any]) -> list[_Cell]:
    lines = [*entry["lines"].values()]
    across = [one for one in entry.get("across", []) if f"{{{one}}}" in head]
    rows = frame.query(how["where"]) if "where" in how else frame
    made = []
    for values, group in rows.groupby([*across, *lines], observed=True):
        keys = dict(zip([*across, *lines], values, strict=True))
        each = group.groupby(how["each"], observed=True) if "each" in how else [("", group)]
        text = ", ".join(
            how["show"].format_map({str(name): _Values(part[name]) for name in part})
            for _, part in each
        )
        if "nan" not in text:
            line = tuple(keys[one] for one in lines)
            made.append(_Cell(line, head.format_map(keys), keys, text))
    alike: dict[tuple[str, ...], list[_Cell]] = {}
    for cell in made if "least" in how else ():
        alike.setdefault(tuple(cell.keys[one] for one in how["least"]), []).append(cell)
    for same in alike.values():
        least = min(float(cell.text) for cell in same)
        for cell in same:
            cell.text = f"**{cell.text}**" if float(cell.text) == least else cell.text
    return made

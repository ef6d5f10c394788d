"""A domain that was drafted from a public table, and the words of what it leaves out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from jam_dagster.common.yaml_text import write_yaml
from jam_dagster.tables.domain.column_notes import SHIFT_ADVICE
from jam_dagster.tables.domain.constraints import Repair, described_alike
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.domain_file import save_domain
from jam_dagster.tables.domain.lookups import Lookup
from jam_dagster.tables.domain.values import Value
from jam_dagster.tables.drafting.determined import Entry

_MOST_NAMED = 10


@dataclass(frozen=True)
class LeftOut:
    """A column of the public table that a drafted domain leaves out.

    `index` is its place in the table, from 0; `reason` says why, such as "is 2013 in every row".
    """

    name: str
    index: int
    reason: str

    def __str__(self) -> str:
        """Return name and reason in one line that a terminal or a comment can hold."""
        return _printable(f"{self.name}: {self.reason}")


@dataclass(frozen=True)
class DraftedDomain:
    """A domain that was drafted from a public table, and what it leaves out of it.

    Parameters
    ----------
    domain
        The attributes that could be drafted, every other column as a derived one, and what
        synthetic rows are repaired to keep.
    left_out
        The columns that are missing in every synthetic row, in the table's order.
    proposed
        What holds in every row of the public table, by column, which the domain does not have: an
        expression, or a mapping of `expression` and `values`, as a domain file has them.
    notes
        What a person should look at, by column.
    breakable
        How many rows of the public table could have broken a rule: those that do if the cells of a
        column are shuffled, by the name of a derived or proposed column, or by the repair.
    children
        The draft of the children's table, if the domain has one; the rest is of the root table.
    """

    domain: Domain
    left_out: tuple[LeftOut, ...]
    proposed: Mapping[str, Entry] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    breakable: Mapping[str | Repair, int] = field(default_factory=dict)
    children: DraftedDomain | None = None

    @property
    def said_left_out(self) -> list[str]:
        """A line for each column that is left out, also of the children's table."""
        return [*map(str, self.left_out), *self._of_children("said_left_out")]

    @property
    def said_notes(self) -> list[str]:
        """A line for each column to look at, also of the children's table."""
        own = [_printable(f"{name}: {note}") for name, note in self.notes.items()]
        return [*own, *self._of_children("said_notes")]

    def _of_children(self, lines: str) -> list[str]:
        if self.children is None or self.domain.children is None:
            return []
        table = self.domain.children.link.table
        return [f"{table}: {line}" for line in getattr(self.children, lines)]

    @property
    def remark(self) -> str:
        """Lines on what is left out, noted, derived or repaired, or ""."""
        own = self._own_remark
        if self.children is None or self.domain.children is None or not self.children.remark:
            return own
        head = f"Table {self.domain.children.link.table}:"
        return "\n".join(filter(None, [own, head, self.children.remark]))

    @property
    def _own_remark(self) -> str:
        domain = self.domain.roots
        found = [one for one in domain.derived if one.expression is not None]
        derived: dict[str, Entry | None] = {}
        for one in found:
            by_table = bool(one.values) or isinstance(one.expression, Lookup)
            derived[one.name] = one.described if by_table else cast("Value", one.expression)
        totals = () if self.domain.children is None else self.domain.children.totals
        parts = {
            "Columns that are left out, and missing in each synthetic row:": [
                *map(str, self.left_out)
            ],
            "Columns to look at:": [_printable(f"{one}: {self.notes[one]}") for one in self.notes],
            "Columns that are derived, as in every row of the public table, and measured nowhere"
            " (--no-infer models them):": self._counted(derived),
            "Columns that children give, computed after both tables are made:": [
                _printable(f"{one.name}: {one.expression}") + self._could_break(one.name)
                for one in totals
            ],
            "Rules that synthetic rows keep, as all public ones do:": [
                _printable(line) + self._could_break(*alike)
                for line, alike in described_alike(domain, domain.repairs)
            ],
            "Rules that a root and its synthetic children keep, as all public ones do:": (
                self._within_roots
            ),
        }
        return "\n".join("\n  ".join([head, *rows]) for head, rows in parts.items() if rows)

    @property
    def _within_roots(self) -> list[str]:
        """A line on each rule of both tables."""
        if (two := self.domain.children) is None:
            return []
        said = [_printable(one.describe(two.both)) + self._could_break(one) for one in two.rules]
        return said + [
            _printable(one.describe(two.both)) + self._could_break(one.name) for one in two.numbers
        ]

    @property
    def _could_be_broken(self) -> list[str]:
        """A line on each rule of the domain, and the public rows that could have broken it."""
        domain = self.domain.roots
        rules: list[tuple[str, tuple[str | Repair, ...]]]
        rules = [(_printable(one.name), (one.name,)) for one in domain.derived]
        rules += [
            (_printable(line), tuple(alike))
            for line, alike in described_alike(domain, domain.repairs)
        ]
        said = [f"{line}{count}" for line, rule in rules if (count := self._could_break(*rule))]
        said += self._within_roots
        return ["Rules of the public table, which synthetic rows keep:", *said] if said else []

    def _counted(self, entries: Mapping[str, Entry | None]) -> list[str]:
        """Return the lines of entries, with the public rows that could have broken each."""
        lines = zip(entries, _lines(entries), strict=True)
        return [line + self._could_break(name) for name, line in lines]

    def _could_break(self, *rules: str | Repair) -> str:
        counts = [self.breakable[one] for one in rules if one in self.breakable]
        return f"  # {min(counts):,} public rows could have broken it" if counts else ""

    @property
    def headline(self) -> str:
        """How many columns are missing in each synthetic row, with what can be done, or ""."""
        names = [one.name for one in self.left_out]
        if self.children is not None and self.domain.children is not None:
            table = self.domain.children.link.table
            names += [f"{one.name} of {table}" for one in self.children.left_out]
        if not names:
            return ""
        some = ", ".join(map(_printable, names[:_MOST_NAMED]))
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return (
            f"Empty in every synthetic row: {some}{more}. To fill one, write below `derived` a"
            " number for each row, such as `key: row()`, or a text, such as"
            """ `name: '"customer " + text(row(), 5)'`."""
        )

    @property
    def hint(self) -> str:
        """Columns that could be derived, as for `remark`."""
        if not self.proposed:
            return ""
        head = "Columns that could be derived, if you write it below `derived`:"
        short = {name: _in_short(one) for name, one in self.proposed.items()}
        return "\n  ".join([head, *self._counted(short)])

    def without_shift_advice(self) -> DraftedDomain:
        """Return the draft of a public table that is in the private period already."""
        notes = {name: note.replace(SHIFT_ADVICE, "") for name, note in self.notes.items()}
        children = self.children and self.children.without_shift_advice()
        return replace(self, notes=notes, children=children)

    def save(self, path: str | Path) -> None:
        """Write a domain file; in YAML, comments say what is left out, why, and what is derived."""
        left_out = {one.index: one for one in self.left_out}
        attributes = self.domain.roots.names
        names = iter(attributes)
        comments: list[tuple[int, str]] = []
        notes = 0
        for index in range(len(left_out) + len(attributes)):
            if index in left_out:
                comments.append((index + notes, f"left out: {left_out[index]}"))
            elif note := self.notes.get(next(names, "")):
                comments.append((index + notes, _printable(note)))
                notes += 1
        end = []
        if self.proposed:
            head = (
                "Rules that hold in every row of the public table, to be written below `derived`:"
            )
            end += [head, *self._counted(self.proposed)]
        end += self._could_be_broken
        end += [f"left out of {one}" for one in self._of_children("said_left_out")]
        end += self._of_children("said_notes")
        save_domain(self.domain.to_dict(), path, comments, end)


def _in_short(entry: Entry) -> Entry:
    if not isinstance(entry, dict):
        return entry
    if "lookup" in entry:
        return f"looked up by {', '.join(entry['lookup'])}"
    return f"{entry['expression']} by its values"


def _printable(text: str) -> str:
    """Return a text in one line that a terminal or a comment can hold."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _lines(expressions: Mapping[str, Entry | None]) -> list[str]:
    """Return an entry of a domain file for each expression, in one line."""
    lines = []
    for name, one in expressions.items():
        entry = write_yaml({name: one}).strip()
        if not entry.startswith("{") or "\n" in entry:
            # An entry that YAML breaks is short enough in JSON.
            entry = f"{{{json.dumps(name)}: {json.dumps(one)}}}"
        lines.append(entry[1:-1])
    return lines

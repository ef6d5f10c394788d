"""The codes of a domain, and their counts, as one query of ibis, for the engine that holds a table.

A code is what `encode` gives the value that a source reads. Values are compared with constants
that Python computes by the same attributes: an engine parses no text, converts no zone and rounds
no number but by IEEE 754. What this cannot promise for a type of column is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import DomainError, InputError, OutsideDomainError, SourceError
from jam_dagster.tables.codes.block_counts import CountedTable, covering_blocks
from jam_dagster.tables.codes.encode import check_possible
from jam_dagster.tables.codes.marginals import counts_dtype
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.domain import Clique, Domain
from jam_dagster.tables.domain.numeric import NumericAttribute
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.values import LARGEST_INTEGER, SPELLED, exact_number, text_of

if TYPE_CHECKING:
    import ibis

Kind = Literal["text", "boolean", "integer", "float", "decimal", "timestamp", "instant", "time"]
"""What a column's values are: decimals come as floats, dates as timestamps."""

SOURCE = "jam_source"
"""The table that the query reads: it has a column for each attribute, of the type of its kind."""

PERSON, KEY = "person", "key"
"""Its columns where rows of a person are limited, both hexadecimal texts."""

_TYPES: dict[Kind, str] = {
    "text": "string",
    "boolean": "boolean",
    "integer": "int64",
    "float": "float64",
    "decimal": "float64",
    "timestamp": "timestamp",
    "instant": "timestamp('UTC')",
    "time": "time",
}
_NUMBERS: tuple[Kind, ...] = ("integer", "float", "decimal")
_IBIS = 12
"""The first version of ibis whose queries are counted by."""

# MSSQL has neither NaN nor infinity, and sorts texts in its own way.
_UNLIKE = ("mssql",)
_MOST_COMPARED = 8
"""More values of an attribute are halved first."""
_WHOLE = re.compile(r"-?[0-9]{1,20}", re.ASCII)
# What Python reads.
_FIRST, _LAST = datetime.min, datetime.max
_TRUTHS = [text for word in ("true", "false") for text in (word, word.upper(), word.title())]


def counting_query(
    domain: Domain,
    kinds: Mapping[str, Kind | None],
    types: Mapping[str, str],
    blocks: Sequence[Clique],
    dialect: str,
    *,
    max_rows: int | None = None,
) -> str:
    """Return the query that counts blocks of attributes, in one pass over `SOURCE`.

    It has a row ``(block, cell, n)`` for each cell of a block that occurs: the block's place, and
    the cell's in an array of the block's shape, or -1 of records that do not lie in the domain.
    `types` are the engine's own names. A column whose values would not be counted as `encode`
    counts them is a `DomainError`.

    At most `max_rows` rows of a person are counted, by the columns `PERSON` and `KEY`: those of the
    first keyed hashes of the person, the row's codes, and its place among the person's rows of
    these codes. They depend on the key and on that person's rows alone, in any order. A row of
    nobody does not lie in the domain.
    """
    ibis = _ibis()
    used = [one for one in domain.attributes if max_rows or any(one.name in b for b in blocks)]
    # A name of a column may be anything.
    columns = {
        f"c{place}": counted_kind(one, kinds[one.name], types[one.name], dialect)
        for place, one in enumerate(used)
    }
    types_of = {name: _TYPES[kind] for name, kind in columns.items()}
    if max_rows:
        types_of |= {PERSON: "string", KEY: "string"}
    source = ibis.table(types_of, name=SOURCE)
    plain = dialect not in _UNLIKE
    codes = source.select(
        **{
            name: _code(source[name], attribute, kind, plain)
            for (name, kind), attribute in zip(columns.items(), used, strict=True)
        },
        **{name: source[name] for name in (PERSON, KEY) if max_rows},
    )
    if max_rows:
        codes = _limited(codes, list(columns), max_rows)
    place_of = {one.name: f"c{place}" for place, one in enumerate(used)}
    counted = []
    for number, block in enumerate(blocks):
        cell = ibis.literal(0, "int64")
        for place, name in enumerate(block):
            code = codes[place_of[name]].cast("int64")
            cell = code if not place else cell * domain.sizes[name] + code
        groups = codes.group_by(cell=cell.fill_null(-1)).agg(n=codes.count())
        counted.append(groups.select(block=ibis.literal(number, "int64"), cell="cell", n="n"))
    text: str = ibis.to_sql(ibis.union(*counted), dialect=dialect, pretty=False)
    return text


def counted_kind(attribute: Attribute, kind: Kind | None, type_: str, dialect: str) -> Kind:
    """Return the kind of a column, or raise the DomainError of `counting_query`."""
    if kind is None or (reason := _refused(attribute, kind)):
        reason = "its values are read by Python alone" if kind is None else reason
        raise DomainError(
            f"attribute {attribute.name!r} cannot be counted by {dialect} in a column of type"
            f" {type_} ({reason}): cast the column in the query, or let the source read rows, with"
            " `count: rows`. Nothing was charged"
        )
    return kind


def _limited(codes: ibis.Table, names: Sequence[str], max_rows: int) -> ibis.Table:
    """Return the rows that stay of each person."""
    ibis = _ibis()

    def convert_to(text: str, encoding: str) -> bytes: ...  # type: ignore[empty-body]
    def sha256(content: bytes) -> bytes: ...  # type: ignore[empty-body]

    texts = [codes[name].fill_null(-1).cast("string") for name in names]
    listed = codes.mutate(content=ibis.literal(",").join(texts))
    alike = ibis.window(group_by=["person", "content"], order_by="content")
    placed = listed.mutate(place=ibis.row_number().over(alike))
    parts = [placed.key, placed.place.cast("string"), placed.content, placed.person]
    as_bytes, hashed_by = map(ibis.udf.scalar.builtin, (convert_to, sha256))
    ticket = hashed_by(as_bytes(ibis.literal(":").join(parts), "UTF8"))
    hashed = placed.mutate(ticket=ticket)
    # Equal hashes leave no choice either.
    turn = ibis.window(group_by="person", order_by=["ticket", "content", "place"])
    kept = hashed.mutate(turn=ibis.row_number().over(turn))
    kept = kept.filter(kept.turn < max_rows)
    somebody = kept.person.notnull()
    return kept.select(**{name: somebody.ifelse(kept[name], ibis.null("int32")) for name in names})


def engine_blocks(domain: Domain, cliques: Iterable[Clique]) -> list[Clique]:
    """Return the `covering_blocks` of marginals, and of each attribute and constraint."""
    singles = [(name,) for name in domain.names]
    checked = [domain.canonical(one.attributes) for one in domain.forbidden]
    return covering_blocks(domain, [*cliques, *singles, *checked])


def counted_groups(
    groups: Iterable[tuple[Clique, npt.NDArray[np.int64]]],
    domain: Domain,
    blocks: Sequence[Clique],
) -> CountedTable:
    """Take the counts that an engine made, and check that all records lie in the domain.

    A group is a block, and some of its cells with their counts, shape (2, cells); a negative cell
    is of records that do not lie in the domain. What is raised depends on private values.
    """
    counts = {block: np.zeros(domain.size(block), np.int64) for block in blocks}
    for block, (cells, found) in groups:
        if len(cells) and cells.min() < 0:
            raise OutsideDomainError("the table holds records outside the domain")
        counts[block][cells] += found
    records, *others = sorted({int(one.sum()) for one in counts.values()})
    if others:
        raise InputError("the query gives other rows each time that it is asked")
    shaped = {}
    for block, flat in counts.items():
        sizes = [domain.sizes[name] for name in block]
        shaped[block] = flat.astype(counts_dtype(records)).reshape(sizes)
        within = domain.project(block)
        if within.forbidden:
            check_possible(EncodedTable(within, np.nonzero(shaped[block])))
    return CountedTable(domain, records, shaped)


def ibis_is_missing() -> str | None:
    """Return that ibis is not installed or too old, if it is."""
    try:
        found = version("ibis-framework")
    except PackageNotFoundError:
        return "ibis is not installed"
    old = int(found.split(".")[0]) < _IBIS
    return f"ibis {found} is older than {_IBIS}" if old else None


def _ibis() -> Any:
    try:
        import ibis
    except ImportError:
        raise SourceError(
            "counting in a warehouse needs ibis: install it, with pip install"
            " 'jam-dagster[warehouse]', or let the source read rows, with `count: rows`"
        ) from None
    return ibis


def _refused(attribute: Attribute, kind: Kind) -> str | None:
    """Return why values of a kind are not counted as `encode` counts them, if they are not."""
    if isinstance(attribute, CategoricalAttribute):
        numbers = [one for one in attribute.values if not isinstance(one, str | bool)]
        if kind == "text" and numbers:
            return "texts may write the numbers of the domain in several ways"
        large = [one for one in numbers if isinstance(one, int) and abs(one) > LARGEST_INTEGER]
        if kind == "decimal" and large:
            return "its numbers are larger than floats hold exactly"
        return None if kind in ("text", "boolean", *_NUMBERS) else "the domain lists values"
    if not isinstance(attribute, TimeAttribute):
        return None if kind in _NUMBERS else "the domain has numbers"
    clock = attribute.clock
    wanted = {"instant": ("timestamp", "instant"), "time": ("time",)}.get(clock.kind, ())
    if kind not in wanted:
        return "the domain has dates or times"
    if kind == "timestamp" and clock.zone and clock.counts_in_utc and not clock.texts_are_utc:
        return "hours of a zone need timestamps with a zone"
    if kind != "time" and not all(map(_Instants(attribute, kind).steps, _edges(attribute))):
        return f"the clock of {clock.zone} goes back over midnight"
    return None


def _code(
    column: ibis.Column, attribute: Attribute, kind: Kind, plain: bool
) -> ibis.expr.types.IntegerColumn:
    """Return the code of each value; null if it does not lie in the domain."""
    ibis = _ibis()
    missing = column.isnull()
    if plain and kind in ("float", "decimal"):
        missing = missing | column.isnan()
    # A literal of its own, for null has no type.
    bad = ibis.null("int32")
    null = bad if attribute.null_code is None else attribute.null_code
    if isinstance(attribute, CategoricalAttribute):
        code = _category_code(column, attribute, kind, plain)
        return ibis.cases((missing, null), else_=code)
    if isinstance(attribute, TimeAttribute):
        cases, code = _time_cases(column, attribute, kind)
    else:
        cases, code = _bin_cases(column, attribute, kind)
    return ibis.cases((missing, null), *((case, bad) for case in cases), else_=code)


def _category_code(
    column: ibis.Column, attribute: CategoricalAttribute, kind: Kind, plain: bool
) -> ibis.Value:
    """Return the code of each listed value, and that of all others, null if they have none.

    A value is looked for among the sorted ones, where the engine sorts as Python does.
    """
    ibis = _ibis()
    rest = None if attribute.other is None else attribute.code_of(attribute.other)
    if rest is None and attribute.unreadable == "missing":
        rest = attribute.null_code
    codes = {value: attribute.code_of(value) for value in _listed(attribute, kind)}
    values = sorted(value for value, code in codes.items() if code not in (None, rest))
    others = ibis.null("int32") if rest is None else ibis.literal(rest, "int32")
    most = _MOST_COMPARED if plain or kind != "text" else len(values)

    def among(listed: Sequence[Any]) -> Any:
        if len(listed) > most:
            middle = len(listed) // 2
            before = column < _literal(listed[middle])
            return ibis.ifelse(before, among(listed[:middle]), among(listed[middle:]))
        found = [(_literal(value), codes[value]) for value in listed]
        return column.cases(*found, else_=others) if found else others

    return among(values)


def _listed(attribute: CategoricalAttribute, kind: Kind) -> list[Any]:
    """Return values of a kind, among them all that have a code of their own."""
    if kind == "boolean":
        return [True, False]
    texts = [text_of(value) for value in attribute.values]
    if kind == "text":
        words = {word for pair in SPELLED for word in pair} if len(texts) == 2 else ()
        cased = (
            "".join(letters)
            for word in sorted(words)
            for letters in product(*((one, one.upper()) for one in word))
        )
        return list(dict.fromkeys((*texts, *_TRUTHS, *cased)))
    numbers = [exact_number(one) for one in attribute.values if not isinstance(one, str)]
    found: list[Any] = []
    if kind == "integer":
        found += [int(text) for text in texts if _WHOLE.fullmatch(text)]
        found += [int(one) for one in numbers if one is not None and one == int(one)]
        return [one for one in dict.fromkeys(found) if -(2**63) <= one < 2**64]
    for one in (*texts, *numbers):
        with suppress(ValueError, OverflowError, TypeError):
            found.append(float(one))  # type: ignore[arg-type]
    return [one for one in dict.fromkeys(found) if not math.isnan(one)]


def _literal(value: Any) -> ibis.Scalar:
    """Return a constant; a float by its shortest text, which every engine reads exactly."""
    ibis = _ibis()
    if isinstance(value, float):
        text = repr(value).replace("inf", "Infinity")
        return ibis.literal(text).cast("float64")
    return ibis.literal(value)


def _bin_cases(
    column: ibis.Column, attribute: NumericAttribute, kind: Kind
) -> tuple[list[Any], ibis.Value]:
    """Return which values lie outside the domain, and the bin of the others."""
    numbers = column.cast("float64") if kind == "integer" else column
    first, *inner, last = map(_literal, attribute.edges)
    outside = []
    if not attribute.clip:
        outside = [numbers < first, numbers > last]
        if attribute.integer and kind != "integer":
            # Within the bounds, where an integer of 64 bits holds it.
            outside.append(numbers != numbers.floor().cast("float64"))
    return outside, _step(numbers, inner, 0, attribute.bins - 1)


def _step(values: ibis.Column, starts: Sequence[Any], low: int, high: int) -> ibis.Value:
    """Return the last bin that begins at or before each value; bin i + 1 begins at start i."""
    ibis = _ibis()
    if low == high:
        return ibis.literal(low, "int32")
    middle = (low + high + 1) // 2
    before = _step(values, starts, low, middle - 1)
    return ibis.ifelse(values < starts[middle - 1], before, _step(values, starts, middle, high))


def _edges(attribute: TimeAttribute) -> list[int]:
    """Return the first unit of each bin, and the first after the last one."""
    *edges, last = attribute.edges
    return [*map(int, edges), math.floor(last) + 1]


def _time_cases(
    column: ibis.Column, attribute: TimeAttribute, kind: Kind
) -> tuple[list[Any], ibis.Value]:
    """Return which values lie outside the domain, or are none of Python's, and the others' bin."""
    ibis = _ibis()
    where = _Times(attribute) if kind == "time" else _Instants(attribute, kind)
    first, *inner, end = [where.start(edge) for edge in _edges(attribute)]
    outside = [~column.between(*map(ibis.literal, where.range))]
    low = sum(start == -1 for start in inner)
    high = sum(start != 1 for start in inner)
    if not attribute.clip:
        outside += [ibis.literal(True)] if first == 1 else []
        outside += [] if isinstance(first, int) else [column < ibis.literal(first)]
        outside += [ibis.literal(True)] if end == -1 else []
        outside += [] if isinstance(end, int) else [column >= ibis.literal(end)]
    starts = [None if isinstance(one, int) else ibis.literal(one) for one in inner]
    return outside, _step(column, starts, low, high)


class _Instants:
    """When units begin, as values of a column of timestamps."""

    def __init__(self, attribute: TimeAttribute, kind: Kind) -> None:
        self._clock = attribute.clock
        self._zone = UTC if kind == "instant" else None
        self.range = (_FIRST.replace(tzinfo=self._zone), _LAST.replace(tzinfo=self._zone))

    def start(self, count: int) -> datetime | int:
        """Return the first value of a unit; -1 if all are later, 1 if all are earlier."""
        first, last = self.range
        try:
            moment = self._clock.moment(count)
            if moment.tzinfo is not None and (self._zone or self._clock.texts_are_utc):
                moment = moment.astimezone(UTC)
            moment = moment.replace(tzinfo=self._zone)
        except (OverflowError, ValueError):
            return 1 if count > 0 else -1
        return -1 if moment < first else 1 if moment > last else moment

    def steps(self, count: int) -> bool:
        """Return whether all values from the first on, and none before, lie in the unit or later.

        The two days around are looked at: in a zone a clock may go back.
        """
        start = self.start(count)
        if isinstance(start, int) or self._clock.zone is None:
            return True
        ages = [timedelta(minutes=15 * quarter) for quarter in range(96)]
        first, last = self.range
        around = [start + age for age in ages if age <= last - start]
        ages.append(timedelta(microseconds=1))
        around += [start - age for age in ages if age <= start - first]
        return all(
            (self._clock.count_at(moment) >= count) == (moment >= start) for moment in around
        )


class _Times:
    """When units begin, as values of a column of times of day."""

    range = (time.min, time.max)

    def __init__(self, attribute: TimeAttribute) -> None:
        self._clock = attribute.clock

    def start(self, count: int) -> time | int:
        """Return the first value of a unit; -1 if all are later, 1 if all are earlier."""
        if count <= 0:
            return -1
        with suppress(OverflowError, ValueError):
            moment = self._clock.moment(count)
            if moment.date() == self._clock.moment(0).date():
                return moment.time()
        return 1

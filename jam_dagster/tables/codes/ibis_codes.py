"""The codes of a domain, and their counts, as one query of ibis, for the engine that holds a table.

A code is what `encode` gives the value that a source reads. Values are compared with constants
that Python computes by the same attributes: an engine parses no text, converts no zone and rounds
no number but by IEEE 754. A type of column for which this cannot be promised is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import DomainError, InputError, OutsideDomainError, SourceError
from jam_dagster.tables.codes.block_counts import CountedTable, covering_blocks
from jam_dagster.tables.codes.encode import check_possible
from jam_dagster.tables.codes.marginals import counts_dtype
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.attributes import Attribute, Kind
from jam_dagster.tables.domain.domain import Clique, Domain

if TYPE_CHECKING:
    import ibis

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
_IBIS = 12
"""The first version of ibis whose queries are counted by."""

_MOST_COMPARED = 8
"""More values of an attribute are halved first."""


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

    It has a row ``(block, cell, n)`` for each cell of a block that occurs: the block's index, and
    the cell's in an array of the block's shape, or -1 of records that are not in the domain.
    `types` are the engine's own names. A column whose values would not be counted as `encode`
    counts them is a `DomainError`.

    At most `max_rows` rows of a person are counted, by the columns `PERSON` and `KEY`: those of the
    first keyed hashes of the person, the row's codes, and its place among the person's rows of
    these codes. They depend on the key and on that person's rows alone, in any order. A row of
    nobody is not in the domain.
    """
    ibis = _ibis()
    used = [one for one in domain.attributes if max_rows or any(one.name in b for b in blocks)]
    # A name of a column may be anything.
    columns = {
        f"c{index}": counted_kind(one, kinds[one.name], types[one.name], dialect)
        for index, one in enumerate(used)
    }
    types_of = {name: _TYPES[kind] for name, kind in columns.items()}
    if max_rows:
        types_of |= {PERSON: "string", KEY: "string"}
    source = ibis.table(types_of, name=SOURCE)
    codes = source.select(
        **{
            name: _code(source[name], attribute, kind)
            for (name, kind), attribute in zip(columns.items(), used, strict=True)
        },
        **{name: source[name] for name in (PERSON, KEY) if max_rows},
    )
    if max_rows:
        codes = _limited(codes, list(columns), max_rows)
    column_of = {one.name: f"c{index}" for index, one in enumerate(used)}
    counted = []
    for number, block in enumerate(blocks):
        cell = ibis.literal(0, "int64")
        for index, name in enumerate(block):
            code = codes[column_of[name]].cast("int64")
            cell = code if not index else cell * domain.sizes[name] + code
        groups = codes.group_by(cell=cell.fill_null(-1)).agg(n=codes.count())
        counted.append(groups.select(block=ibis.literal(number, "int64"), cell="cell", n="n"))
    text: str = ibis.to_sql(ibis.union(*counted), dialect=dialect, pretty=False)
    return text


def counted_kind(attribute: Attribute, kind: Kind | None, type_: str, dialect: str) -> Kind:
    """Return the kind of a column, or raise the DomainError of `counting_query`."""
    if kind is None or (reason := attribute.refused_as(kind)):
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
    """Take the counts that an engine made, and check that all records are in the domain.

    A group is a block, and some of its cells with their counts, shape (2, cells); a negative cell
    is of records that are not in the domain. The error that is raised depends on private values.
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


def _code(column: ibis.Column, attribute: Attribute, kind: Kind) -> ibis.expr.types.IntegerColumn:
    """Return the code of each value; null if it is not in the domain."""
    ibis = _ibis()
    missing = column.isnull()
    if kind in ("float", "decimal"):
        missing = missing | column.isnan()
    # A literal of its own, for null has no type.
    bad = ibis.null("int32")
    null = bad if attribute.null_code is None else attribute.null_code
    cases, code = attribute.code_in(column, kind, Expressions(ibis))
    return ibis.cases((missing, null), *((case, bad) for case in cases), else_=code)


class Expressions:
    """The expressions from which attributes make the codes of a column."""

    def __init__(self, ibis: Any) -> None:
        self._ibis = ibis

    def literal(self, value: Any) -> ibis.Scalar:
        """Return a constant; a float by its shortest text, which every engine reads exactly."""
        if isinstance(value, float):
            text = repr(value).replace("inf", "Infinity")
            return self._ibis.literal(text).cast("float64")
        return self._ibis.literal(value)

    def among(
        self, column: ibis.Column, kind: Kind, codes: Mapping[Any, int], rest: int | None
    ) -> ibis.Value:
        """Return the code of each listed value, and that of all others, null if they have none.

        A value is looked for among the sorted ones, for the engine sorts as Python does.
        """
        ibis = self._ibis
        others = ibis.null("int32") if rest is None else ibis.literal(rest, "int32")

        def found(listed: Sequence[Any]) -> Any:
            if len(listed) > _MOST_COMPARED:
                middle = len(listed) // 2
                before = column < self.literal(listed[middle])
                return ibis.ifelse(before, found(listed[:middle]), found(listed[middle:]))
            cases = [(self.literal(value), codes[value]) for value in listed]
            return column.cases(*cases, else_=others) if cases else others

        return found(sorted(codes))

    def step(self, values: ibis.Column, starts: Sequence[Any], low: int, high: int) -> ibis.Value:
        """Return the last bin that begins at or before each value; bin i + 1 begins at start i."""
        if low == high:
            return self._ibis.literal(low, "int32")
        middle = (low + high + 1) // 2
        before = self.step(values, starts, low, middle - 1)
        after = self.step(values, starts, middle, high)
        return self._ibis.ifelse(values < starts[middle - 1], before, after)

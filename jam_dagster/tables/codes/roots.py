"""Roots with their children: two tables made into one of a row a root, and one into two.

A root's row has the number of its children and two of them, at random and in random order. It
depends on the root's own rows alone, whatever rows other roots have, so a root is one privacy unit
and two tables that differ in one root differ in one row. In private tables no order of rows decides
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import private_values
from jam_dagster.errors import DomainError, InputError
from jam_dagster.tables.codes.alike import alike_rows, most_dependent
from jam_dagster.tables.codes.decode import decode
from jam_dagster.tables.codes.encode import check_possible, each_encoded, encode
from jam_dagster.tables.codes.privacy_unit import (
    LimitedRows,
    PrivacyUnit,
    places,
    seeded_secret,
    tickets,
)
from jam_dagster.tables.codes.row_hashes import contents_of
from jam_dagster.tables.codes.table import EncodedTable, joined
from jam_dagster.tables.codes.within_roots import Family, Kin, Room, RuleTables, Unfit
from jam_dagster.tables.domain.children import MOST_DIGITS, SLOTS
from jam_dagster.tables.domain.columns import (
    Batch,
    column_in,
    each_value,
    missing_in,
    no_rows_of,
)
from jam_dagster.tables.domain.values import exact_number, text_of

if TYPE_CHECKING:
    from jam_dagster.tables.domain.children import Link
    from jam_dagster.tables.domain.domain import Children, Domain

_MOST_ALIKE = 6
_LEAST_CANDIDATES = 8
_MOST_CANDIDATES = 32
_MOST_CHOICES = 2**21
_POWERS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.5, 2.0)
_LARGEST_TABLE = 2**20
_LEAST_DONORS = 10
_ROUNDS = 3
_UNFIT = 50.0


def encode_roots(
    roots: Iterable[Batch], children: Iterable[Batch], domain: Domain, secret: bytes
) -> EncodedTable:
    """Encode two private tables that come in batches as a table of one row a root.

    A root that has several rows keeps one. Children of no root are left out, and so are those of a
    root that has more than the link's maximum; both by keyed hashes of the root and of the codes of
    its own rows (see `LimitedRows`). All other rows of both tables must be in the domain, whether
    they are chosen or not.

    Parameters
    ----------
    roots, children
        The rows of both tables, with the columns of the domain and of the link.
    domain
        The domain of roots and children.
    secret
        Chooses rows.

    Returns
    -------
    EncodedTable
        A row a root: its codes, the number of its children, the codes of two of them.

    Raises
    ------
    InputError
        A table has no column of the link, or two.
    DomainError
        As `encode`.
    PrivateValuesError
        A root has no cell in the link's column, or as `encode`.
    """
    two = children_in(domain)
    link = two.link
    rows = LimitedRows(PrivacyUnit(link.column), secret, _key_text)
    every = joined(rows.encoded(_with_key(roots, link, "the root table"), two.roots), two.roots)
    kept = rows.kept()
    place = np.full(len(rows.persons.people), -1, dtype=np.intp)
    place[rows.numbers[kept]] = np.arange(np.count_nonzero(kept))
    indices = {text: int(place[number]) for text, number in rows.persons.people.items()}
    owners, contents = [np.empty(0, np.intp)], [np.empty((0, 2), np.uint64)]

    def owned() -> Iterator[Batch]:
        for batch in _with_key(children, link, f"the table {link.table!r}"):
            with private_values():
                owner = _owners(indices, column_in(batch, link.column))
                owners.append(owner[owner >= 0])
                yield _rows_of(batch, owner >= 0)

    def encoded() -> Iterator[EncodedTable]:
        for table in each_encoded(owned(), two.domain):
            contents.append(contents_of(table.columns, secret))
            yield table

    child = joined(encoded(), two.domain)
    with private_values():
        texts = np.empty(len(indices), dtype=object)
        texts[np.array([*indices.values()], dtype=np.intp)] = [*indices]
        chosen, number = _two_children(
            texts, np.concatenate(owners), np.concatenate(contents), secret
        )
        table = _of_slots(every.take(kept), child, chosen, number, domain)
        check_possible(table)
    return table


def _of_slots(
    roots: EncodedTable,
    children: EncodedTable,
    chosen: npt.NDArray[np.intp],
    number: npt.NDArray[np.int64],
    domain: Domain,
) -> EncodedTable:
    """Return a row a root, of which `chosen` has the rows of its children, a row a slot."""
    count = np.minimum(number, children_in(domain).link.maximum)
    columns = [*roots.columns, count]
    for slot, rows in zip(SLOTS, chosen, strict=True):
        there = count >= slot
        for codes, size in zip(children.columns, children.domain.shape, strict=True):
            # The last cell of a child's attribute is for roots without that child.
            cells = np.full(len(count), size)
            cells[there] = codes[rows[there]]
            columns.append(cells)
    return EncodedTable(domain, tuple(columns))


def _with_key(batches: Iterable[Batch], link: Link, called: str) -> Iterator[Batch]:
    """Yield batches that have the column of the link, or raise InputError."""
    for batch in batches:
        _check_key(no_rows_of(batch), link, called)
        yield batch


def _rows_of(batch: Batch, rows: npt.NDArray[np.bool_]) -> Batch:
    if isinstance(batch, pd.DataFrame):
        return batch.loc[rows]
    import pyarrow as pa

    return batch.filter(pa.array(rows))


def roots_with_children(roots: pd.DataFrame, children: pd.DataFrame, link: Link) -> pd.DataFrame:
    """Return a public table of one row a root: its columns, number of children, two of them.

    Rows are chosen as `encode_roots` chooses them, but by their places. The link's
    column is left out, and cells of a child that a root lacks are missing.

    Raises
    ------
    InputError
        A table has no column of the link, or two; both tables have columns of one name; a root has
        no cell in it; or no child has a root.
    """
    unit, secret = PrivacyUnit(link.column), seeded_secret(0)
    _check_key(roots, link, "the root table")
    _check_key(children, link, f"the table {link.table!r}")
    if missing_in(roots[link.column]).any():
        raise InputError(
            f"column {link.column!r} of the public root table has missing values: fill them in, or"
            " remove these rows"
        )
    identifiers = each_value(roots[link.column], _key_text, None)
    named = roots.assign(**{link.column: identifiers, _ROOT: np.arange(len(roots))})
    limited = unit.limit(named, secret)
    kept = identifiers[limited.pop(_ROOT).to_numpy()]
    owners = _owners({text: index for index, text in enumerate(kept)}, children[link.column])
    same = np.zeros((len(owners), 2), np.uint64)
    chosen, number = _two_children(kept, owners, same, secret)
    if len(children) and not number.any():
        raise InputError(
            f"no row of the public table {link.table!r} has the {link.column!r} of a row of its"
            " root table: write the keys alike in both"
        )
    flat = _flat(limited, children, link, chosen, number)
    flat.attrs = {
        KEYS: {"width": _width_of(roots[link.column]), "rootless": int((owners < 0).sum())}
    }
    return flat


def _width_of(keys: pd.Series[Any]) -> int:
    """Return how many digits all keys of a public table have that are texts such as 000001."""
    texts = keys.unique().tolist()
    if not all(isinstance(one, str) and one.isascii() and one.isdecimal() for one in texts):
        return 0
    width = len(texts[0])
    alike = all(len(one) == width for one in texts) and width <= MOST_DIGITS
    return width if alike and any(one.startswith("0") for one in texts) else 0


def _check_key(table: pd.DataFrame, link: Link, called: str) -> None:
    """Raise InputError unless a table has the column of the link, once."""
    found = list(table.columns).count(link.column)
    if found != 1:
        raise InputError(
            f"{called} has {'more than one' if found else 'no'} column {link.column!r}, which"
            f" children.{link.table}.key names: name the column of both tables that identifies a"
            " row of the root table. Nothing was charged."
        )


def _flat(
    roots: pd.DataFrame,
    children: pd.DataFrame,
    link: Link,
    chosen: npt.NDArray[np.intp],
    number: npt.NDArray[np.int64],
) -> pd.DataFrame:
    """Return a row a root, of which `chosen` has the rows of its children, a row a slot."""
    flat = {str(name): roots[name] for name in roots.columns}
    flat[link.table] = pd.Series(np.minimum(number, link.maximum))
    columns = [name for name in children.columns if name != link.column]
    for slot, rows in zip(SLOTS, chosen, strict=True):
        for name in columns:
            flat[link.name(slot, name)] = _taken(children[name], rows)
    if len(flat) < len(roots.columns) + 1 + len(SLOTS) * len(columns):
        raise InputError(
            f"the root table and the table {link.table!r} of its children have columns of one name:"
            f" rename those of the root table that begin with {link.table!r}"
        )
    return pd.DataFrame(flat)


def children_apart(flat: pd.DataFrame, link: Link) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the root columns of a table of one row a root, and its children, a row each."""
    slots = [link.name(slot, "") for slot in SLOTS]
    roots = [name for name in flat.columns if not name.startswith((*slots,)) and name != link.table]
    children = []
    for slot, own in zip(SLOTS, slots, strict=True):
        columns = {name: name.removeprefix(own) for name in flat.columns if name.startswith(own)}
        rows = flat.loc[flat[link.table] >= slot, list(columns)]
        children.append(rows.rename(columns=columns))
    return flat[roots], pd.concat(children, ignore_index=True)


KEYS = "keys"
"""The mark of a public flat table: the width of its keys, and its children of no root."""

_ROOT = "\0root"
"""A column for the index of a root in its table, with a name that no table has."""


def _key_text(value: object) -> str:
    """Return the text of a key: a database may have whole numbers that no float distinguishes."""
    whole = exact_number(value) if isinstance(value, Decimal) else None
    return str(whole) if isinstance(whole, int) else text_of(value)


def _owners(roots: Mapping[str, int], keys: pd.Series[Any]) -> npt.NDArray[np.intp]:
    """Return the row of each child's root, -1 for a child of none."""

    def owner(value: object) -> int:
        try:
            return roots.get(_key_text(value), -1)
        except Exception:  # A value in memory may be of any type.
            return -1

    return each_value(keys, owner, -1, np.intp)


def _two_children(
    roots: npt.NDArray[Any],
    owners: npt.NDArray[np.intp],
    contents: npt.NDArray[np.uint64],
    secret: bytes,
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    """Return the rows of two children of each root, -1 for none, and the number of its children."""
    order = np.lexsort((contents[:, 1], contents[:, 0], owners))
    order = order[np.searchsorted(owners[order], 0) :]
    number = np.bincount(owners[order], minlength=len(roots))
    starts = np.concatenate([[0], np.cumsum(number)])
    chosen = np.full((len(SLOTS), len(roots)), -1, dtype=np.intp)
    chosen[0, number == 1] = order[starts[:-1][number == 1]]
    for root in np.flatnonzero(number > 1):
        own = order[starts[root] : starts[root + 1]]
        drawn = tickets(roots[root], places(contents[own]), secret)
        chosen[:, root] = own[np.argsort(drawn, kind="stable")[: len(SLOTS)]]
    return chosen, number


def _taken(column: pd.Series[Any], rows: npt.NDArray[np.intp]) -> pd.Series[Any]:
    """Return cells of a column by their rows, missing where a row is -1."""
    values = column.array
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iub":
        # Large whole numbers would change as floats.
        values = column.convert_dtypes().array
    return pd.Series(pd.api.extensions.take(values, rows, allow_fill=True))


def exchanged(encoded: EncodedTable, rng: np.random.Generator) -> EncodedTable:
    """Return a table of roots, in half of which the two children have changed places.

    The order of two children is random, so both slots count the same.
    """
    domain = encoded.domain
    children = _children_of(encoded)
    second = len(SLOTS)
    turned = rng.random(encoded.records) < 0.5
    turned &= encoded.column(children.link.table) >= second
    columns = dict(zip(domain.names, encoded.columns, strict=True))
    for one, other in zip(
        *(children.link.slot(slot, children.domain.names) for slot in SLOTS), strict=True
    ):
        columns[one], columns[other] = (
            np.where(turned, columns[other], columns[one]),
            np.where(turned, columns[one], columns[other]),
        )
    return EncodedTable(domain, tuple(columns.values()))


def separated(
    encoded: EncodedTable, rng: np.random.Generator
) -> tuple[EncodedTable, EncodedTable, npt.NDArray[np.intp]]:
    """Return the roots of a synthetic table, all their children, and the row of each one's root.

    The first two children are those of the row. Each further one is the second child of a random
    root that is like this one in what a second child depends on most: columns of the root, the
    number of its children and its first child. It is one of some
    candidates, and goes with the other children (see `_further`). If it breaks what holds within a
    root, a code of it changes.
    """
    children = _children_of(encoded)
    link, names = children.link, children.domain.names
    roots = EncodedTable(
        children.roots, tuple(encoded.column(name) for name in children.roots.names)
    )
    number = encoded.column(link.table).astype(np.intp)
    first, second = ([encoded.column(name) for name in link.slot(slot, names)] for slot in SLOTS)
    owners = [np.flatnonzero(number >= 1), np.flatnonzero(number >= 2)]
    blocks = [[column[owners[0]] for column in first], [column[owners[1]] for column in second]]
    for rows, donors in _further(encoded, children, rng):
        owners.append(rows)
        blocks.append([column[donors] for column in second])
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    columns = [np.concatenate(parts)[order] for parts in zip(*blocks, strict=True)]
    if children.rules and len(owners) > len(SLOTS):
        further = np.arange(len(owner)) >= len(owners[0]) + len(owners[1])
        own = {name: column.astype(np.intp) for name, column in zip(names, columns, strict=True)}
        given = {name: roots.column(name).astype(np.intp) for name in roots.domain.names}
        columns = [
            *Family(RuleTables(children), given, owner[order], own)
            .kept(further[order], rng)
            .values()
        ]
    return roots, EncodedTable(children.domain, tuple(columns)), owner[order]


def _further(
    encoded: EncodedTable, children: Children, rng: np.random.Generator
) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Return for each child after the second the roots that have it, and the rows that give it.

    A candidate is like a second child of the first one. It is drawn by how much more often than by
    chance its values occur with those of the other children, to a power, and so that each value is
    drawn as often as by chance. The power is the one by which the pairs of all children come
    closest to those of two. A candidate that breaks what holds within a root is the last choice.
    """
    link, names = children.link, children.domain.names
    number = encoded.column(link.table).astype(np.intp)
    ordinals = range(len(SLOTS) + 1, int(number.max(initial=0)) + 1)
    if not ordinals:
        return []
    rows = [np.flatnonzero(number >= ordinal) for ordinal in ordinals]
    donors = np.flatnonzero(number >= len(SLOTS))
    ranked = _ranked(encoded, children)
    like = [encoded.column(name) for name in ranked]
    candidates = _MOST_CHOICES // max(sum(map(len, rows)), 1)
    candidates = max(_LEAST_CANDIDATES, min(_MOST_CANDIDATES, candidates))
    options = [
        alike_rows(like, donors, np.repeat(one, candidates), rng, least=_LEAST_DONORS).reshape(
            -1, candidates
        )
        for one in rows
    ]
    chance = [rng.gumbel(size=one.shape) for one in options]
    slots = (link.slot(slot, names) for slot in SLOTS)
    pairs = [
        _SiblingPairs(
            encoded.column(first).astype(np.intp), encoded.column(second).astype(np.intp), size
        )
        for first, second, size in zip(*slots, children.domain.shape, strict=True)
        if size**2 <= _LARGEST_TABLE
    ]
    cells = _cells(encoded, ranked, children)
    unfit = Unfit(encoded, RuleTables(children)) if children.rules else None
    tried = (_chosen(rows, options, chance, pairs, cells, power, unfit) for power in _POWERS)
    return list(zip(rows, min(tried, key=lambda one: one[0])[1], strict=True))


@dataclass(frozen=True, eq=False)
class _SiblingPairs:
    """The codes of the first and the second child in one attribute, and their pairs."""

    first: npt.NDArray[np.intp]
    second: npt.NDArray[np.intp]
    size: int

    def counts(self, one: npt.NDArray[np.intp], other: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Return how often two codes are siblings', in any order."""
        found = np.bincount(one * self.size + other, minlength=self.size**2)
        table = found.reshape(self.size, self.size)
        return table + table.T

    def lift(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        """Return the logarithm of how much more often codes are siblings' than by chance."""
        table = self.counts(self.first[rows], self.second[rows])
        expected = np.outer(table.sum(axis=0), table.sum(axis=1)) / max(table.sum(), 1)
        lift: npt.NDArray[np.float64] = np.log((table + 1.0) / (expected + 1.0))
        return lift


def _chosen(
    rows: Sequence[npt.NDArray[np.intp]],
    options: Sequence[npt.NDArray[np.intp]],
    chance: Sequence[npt.NDArray[np.float64]],
    pairs: Sequence[_SiblingPairs],
    cells: Sequence[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]],
    power: float,
    unfit: Unfit | None,
) -> tuple[float, list[npt.NDArray[np.intp]]]:
    """Return the distance of all pairs from those of two children, and the chosen rows."""
    larger = rows[0]
    wanted = [one.counts(one.first[larger], one.second[larger]) for one in pairs]
    lifts = [one.lift(larger) for one in pairs]
    made = [np.zeros_like(one) for one in wanted]
    chosen: list[npt.NDArray[np.intp]] = []
    for here, candidates, by_chance in zip(rows, options, chance, strict=True):
        # Each root of this child has all earlier ones.
        earlier = [
            taken[np.searchsorted(those, here)] for those, taken in zip(rows, chosen, strict=False)
        ]
        score = np.zeros(by_chance.shape)
        for one, lift in zip(pairs, lifts, strict=True):
            for own in (here, *earlier):
                score += power * lift[one.second[own][:, None], one.second[candidates]]
        if unfit is not None:
            score[unfit.rows(here, candidates, earlier)] -= _UNFIT
        if power:
            _keep_shares(score, [group[here][:, None] + own[candidates] for group, own in cells])
        taken = candidates[np.arange(len(here)), (score + by_chance).argmax(axis=1)]
        chosen.append(taken)
        for one, counts in zip(pairs, made, strict=True):
            new = one.second[taken]
            for others in (one.first[here], *(one.second[own] for own in (here, *earlier))):
                counts += one.counts(others, new)
    distance = sum(
        float(np.abs(got / got.sum() - want / want.sum()).sum())
        for got, want in zip(made, wanted, strict=True)
    )
    return distance, chosen


def _keep_shares(score: npt.NDArray[np.float64], cells: Sequence[npt.NDArray[np.intp]]) -> None:
    """Change the scores of candidates so that each cell is chosen as often as by chance.

    The tables are fitted in turn, as by iterative proportional fitting.
    """
    wanted = [np.bincount(one.ravel()) / score.shape[1] for one in cells]
    for _ in range(_ROUNDS):
        for one, expected in zip(cells, wanted, strict=True):
            likely = np.exp(score - score.max(axis=1, keepdims=True))
            likely /= likely.sum(axis=1, keepdims=True)
            found = np.bincount(one.ravel(), likely.ravel(), len(expected))
            score += np.log((expected + 1.0) / (found + 1.0))[one]


def _cells(
    encoded: EncodedTable, ranked: Sequence[str], children: Children
) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Return for each column of a child what a root and a second child add to a cell's number.

    The cells are those of the column with the root's column that matters most.
    """
    best = [encoded.column(one).astype(np.intp) for one in ranked if one in children.roots.names]
    group = best[0] if best else np.zeros(encoded.records, np.intp)
    second = children.link.slot(2, children.domain.names)
    return [
        (group * size, encoded.column(name).astype(np.intp))
        for name, size in zip(second, children.domain.shape, strict=True)
    ]


def _ranked(encoded: EncodedTable, children: Children) -> list[str]:
    """Return the attributes that a second child depends on most, the strongest first."""
    link, domain = children.link, encoded.domain
    second = link.slot(2, children.domain.names)
    rows = np.flatnonzero(encoded.column(link.table) >= 2)
    codes = {name: encoded.column(name).astype(np.intp) for name in domain.names}
    own = set(second)
    return most_dependent(
        domain, codes, second, [name for name in domain.names if name not in own], rows
    )[:_MOST_ALIKE]


def decode_two(
    encoded: EncodedTable, rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Decode a table of roots with two children to the root table and the children's table.

    Both begin with the link's column: roots are numbered from 1, in texts of the link's width if it
    has one, and each child has the key of its root. Totals of the root table follow from the rows
    of the children.
    """
    children = _children_of(encoded)
    column = children.link.column
    roots, every, owners = separated(encoded, rng)
    room = Room.of(children, every, owners, roots.records)
    table = decode(roots, rng, room=room)
    kin = Kin.of(children, table, roots, owners) if children.rules else None
    tables = table, decode(every, rng, kin=kin)
    for number in children.numbers:
        tables[1][number.name] = children.numbered(number, tables[1], owners)
    for one in children.totals:
        found = children.cells_of(one, tables[1], owners, roots.records)
        tables[0][one.name] = found.set_axis(tables[0].index)
    for table, numbers in zip(tables, (np.arange(roots.records), owners), strict=True):
        table.insert(0, column, children.link.keys(numbers + 1).set_axis(table.index))
    return tables


def encode_two(roots: pd.DataFrame, children: pd.DataFrame, domain: Domain) -> EncodedTable:
    """Encode the two tables of `decode_two` as the table of roots with two children that they are.

    The children are in the order of their roots, and the first two of a root are those of its row.
    """
    link = children_in(domain).link
    owners = pd.Index(roots[link.column]).get_indexer(children[link.column])
    number = np.bincount(owners, minlength=len(roots))
    first = np.cumsum(number) - number
    chosen = np.stack([np.where(number >= slot, first + slot - 1, -1) for slot in SLOTS])
    flat = _flat(roots.drop(columns=link.column), children, link, chosen, number)
    return encode(flat, domain, private=False)


def _children_of(encoded: EncodedTable) -> Children:
    return children_in(encoded.domain)


def children_in(domain: Domain) -> Children:
    """Return the two tables of a domain, or raise DomainError if its rows are of one."""
    if domain.children is None:
        raise DomainError("the domain has no children, so its rows are of one table")
    return domain.children

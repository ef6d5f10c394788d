"""Domains that are to be bought, of columns whose names, types or public values are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.codes.texts import published_text
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.bought import OTHER, PAID, asking_entry, unselected
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.constraints import NotNull
from jam_dagster.tables.domain.domain import Domain

_NO_NAME = re.compile(r"\s*|[-+.,\d\s:/%$€£]+|unnamed: \d+", re.IGNORECASE)
"""A name of these looks like a value, of a table without a header."""

_OF_NO_EDGE = ("nullable", "unreadable", "outside")
"""The keys of an entry that say what becomes of cells without a number between the edges."""

_KINDS = {
    "category": "its values are texts; those that many records have are selected",
    "integer": "whole numbers, in bins",
    "number": "numbers, in bins; number:2 has two decimals",
    "date": "dates, in bins; date:%d.%m.%Y says how they are written",
    "datetime": "moments, in bins of minutes; with a format as dates",
    "none": "the column is left out",
}


def paid_domain(
    names: Sequence[str],
    declared: Mapping[str, str],
    types: Mapping[str, str],
    *,
    columns: Sequence[str] | None = None,
    bins: int | None = None,
    **shares: float,
) -> Domain:
    """Return the domain that asks for the values and edges of all columns.

    Parameters
    ----------
    names
        The columns of the private table, which are no secret.
    declared
        What the table's schema says of their types, such as "int64" or "timestamp[us]", by name.
    types
        What the author of the release says of them, such as "date:%d.%m.%Y". A column that neither
        says anything of is a category.
    columns
        The columns to release; None: all.
    bins
        The most bins of numbers and dates.
    **shares
        ``share`` and ``delta_share``; see `Asked`.

    Raises
    ------
    SpecificationError
        If a name is empty, twice there or like a value, or a type is unknown.
    """
    wanted = names if columns is None else columns
    unknown = sorted({*types, *wanted} - set(names))
    if unknown:
        raise SpecificationError(
            f"domain: the private table has no column {unknown[0]!r}: name columns that it has."
        )
    if any(_NO_NAME.fullmatch(name) for name in names) or len(set(names)) < len(names):
        # The first line of a file without a header is a record.
        raise SpecificationError(
            "domain: the private table's columns need a name each, which is no number and no date:"
            " they are published. Give the file a header, or declare the domain."
        )
    attributes = {}
    for name in wanted:
        kind = types.get(name) or _declared_kind(declared.get(name, ""))
        entry = _entry(name, kind)
        if entry is not None:
            attributes[name] = entry | ({"bins": bins} if bins and "edges" in entry else {})
    if not attributes:
        raise SpecificationError("domain: no column is left: leave out fewer.")
    return Domain.from_dict({"attributes": attributes, **shares})


def with_paid_values(draft: Domain, **shares: float) -> Domain:
    """Return a drafted domain that asks for values of its texts beyond those that it has.

    Values in an order, or that a rule or another column depends on, are those of the draft; so are
    numbers and dates.
    """
    rules = (*draft.forbidden, *(one for one in draft.repairs if not isinstance(one, NotNull)))
    fixed = {name for one in rules for name in one.attributes}
    fixed |= {name for one in draft.plan for name in one.sources}
    content: dict[str, Any] = draft.to_dict()
    texts = [
        one
        for one in draft.attributes
        if type(one) is CategoricalAttribute
        and not one.ordered
        and one.name not in fixed
        and all(isinstance(value, str) for value in one.values)
    ]
    for one in texts:
        values = [value for value in one.values if value not in (one.other, OTHER)]
        content["attributes"][one.name] = {"values": PAID, "public": values}
    return Domain.from_dict(content | shares) if texts else draft


def with_public_values(asking: Domain, public: pd.DataFrame) -> Domain:
    """Return a domain that asks for values, with those of a public table among its public ones.

    They are the most frequent ones, at most as many as are selected.
    """
    content: dict[str, Any] = asking.to_dict()
    values = {} if asking.asked is None else asking.asked.values
    for name, (most, public_values) in values.items():
        if name not in public:
            continue
        times = public[name].dropna().map(published_text).value_counts()
        texts = sorted(map(str, times.index), key=lambda text: (-times[text], text))
        more = [text for text in texts if text not in (*public_values, OTHER)][:most]
        content["attributes"][name]["public"] = [*public_values, *sorted(more)]
    return Domain.from_dict(content)


def after_release(asking: Domain, released: Domain) -> Domain:
    """Return what a domain asks for beyond a released one, whose values and edges are public.

    Values that are released stay, and count in the most that are selected. Edges stay as they are
    if what is asked of them is what it was: its range, bins, unit and so on. An attribute without
    such values or edges asks as it did.

    Parameters
    ----------
    asking
        The domain that asks.
    released
        The domain of the release before, or what it asked for beyond an earlier one.
    """
    if asking.asked is None:
        return asking
    bins, values = dict(asking.asked.bins), dict(asking.asked.values)
    attributes = {one.name: one for one in asking.attributes}
    entries: dict[str, Mapping[str, Any]] = {}
    for known in released.attributes:
        own = attributes.get(known.name)
        if isinstance(own, BinnedAttribute) and own.name in bins:
            entry, before = asking_entry(own, asking.asked), released.asked_of(own.name)
            if _asks(released, own.name) or (before and _of_edges(entry) != _of_edges(before)):
                continue
            made = _with_known_edges(own, known)
            if made is not None:
                attributes[own.name] = made
                entries[own.name] = entry
                del bins[own.name]
        elif isinstance(own, CategoricalAttribute) and own.name in values:
            most, public = values[own.name]
            kept = [one for one in _known_values(released, known) if one not in (*public, OTHER)]
            public, most = (*public, *sorted(kept)), max(0, most - len(kept))
            attributes[own.name] = replace(own, values=tuple(unselected(most, public)))
            values[own.name] = most, public
            if not most:
                del values[own.name]
    asked = replace(asking.asked, bins=bins, values=values) if bins or values else None
    return replace(asking, attributes=tuple(attributes.values()), asked=asked, kept=entries)


def _asks(domain: Domain, name: str) -> bool:
    return domain.asked is not None and name in domain.asked.names


def _known_values(released: Domain, known: Attribute) -> Sequence[str]:
    """Return the texts that a released attribute lists; of one that asks, its public ones."""
    asked = released.asked
    if asked is not None and known.name in asked.values:
        return asked.values[known.name][1]
    listed = known.values if isinstance(known, CategoricalAttribute) else ()
    return [one for one in listed if isinstance(one, str)]


def _with_known_edges(own: BinnedAttribute, known: Attribute) -> BinnedAttribute | None:
    """Return an attribute with released edges; None if there are none that it can have."""
    if not isinstance(known, BinnedAttribute) or known.edges == own.edges:
        # No bin of it was sure.
        return None
    try:
        made = replace(own, edges=known.edges, within=known.within)
    except DomainError:
        return None
    # Edges are counts of a unit, or numbers of so many decimals: in another one they are others.
    return made if _of_edges(made.to_entry()) == _of_edges(known.to_entry()) else None


def _of_edges(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an entry says of the edges: no more than which values there are."""
    return {key: value for key, value in entry.items() if key not in _OF_NO_EDGE}


def _declared_kind(text: str) -> str:
    """Return the kind of a type of Arrow, pandas, polars or a database, by its name."""
    kind = text.lower()
    if kind.startswith(("int", "uint", "bigint", "smallint", "tinyint", "hugeint")):
        return "integer"
    if kind.startswith(("float", "double", "decimal", "half", "real", "numeric")):
        return "number"
    if kind.startswith(("datetime", "timestamp")):
        return "datetime"
    return "date" if kind.startswith("date") else "category"


def _entry(name: str, kind: str) -> dict[str, Any] | None:
    """Return the entry of an attribute of a kind; None if it is left out."""
    kind, _, form = kind.partition(":")
    if kind not in _KINDS or (form and kind in ("category", "integer", "none")):
        known = "; ".join(f"{one}: {what}" for one, what in _KINDS.items())
        raise SpecificationError(f"domain.types: {name!r} is {kind!r}: give one of these. {known}.")
    if kind == "none":
        return None
    if kind == "category":
        return {"values": PAID}
    entry: dict[str, Any] = {"edges": PAID}
    if kind == "integer":
        return entry | {"integer": True}
    if kind == "number":
        if form and not form.isdecimal():
            return entry | {"format": form}
        return entry | ({"decimals": int(form)} if form else {})
    entry |= {"unit": "day" if kind == "date" else "minute"}
    return entry | ({"format": form} if form else {})


def types_in(text: str) -> dict[str, str]:
    """Return the types that an option names: ``age=integer,born=date:%d.%m.%Y``.

    Raises
    ------
    SpecificationError
        If a part has no name or no type.
    """
    types: dict[str, str] = {}
    for part in text.split(","):
        name, equal, kind = part.partition("=")
        if not (name.strip() and equal and kind.strip()):
            raise SpecificationError(
                f"types are COLUMN=TYPE, separated by commas, such as age=integer, got {part!r}."
            )
        types[name.strip()] = kind.strip()
    return types

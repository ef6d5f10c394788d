"""The file form of a domain, in YAML or JSON.

::

    identified_from: declared            # declared, public or private
    attributes:
      age: {bounds: [17, 90], bins: 32, integer: true, outside: clip}
      hours: {bounds: [0, 60], bins: 12, nullable: true, unreadable: missing}
      income: {edges: [0, 10000, 25000, 100000], decimals: 2, nullable: true}
      workclass: {values: [Private, State-gov, other], other: other, nullable: true}
      postcode: {prefix: 3, weights: {"10001": 310, "10002": 95}, other: other}
    impossible:                          # each entry: what cannot occur together
      - {age: {below: 15}, marital-status: [Married, Widowed]}
      - {employed: [no, null], income: {from: 25000}}
    derived:                             # columns that are computed, not modelled
      income-a-month: round(income / 12, 2)
      survey: 2024                       # in every row
      remarks: null                      # missing in every row
      key: {expression: '"P" + text(row(), 6)', dtype: string}
      net: {expression: income - 100, at_least: 0}  # a row below it breaks a rule
      sector: {expression: workclass, values: {Private: economy, State-gov: state}}
    columns: [key, age, hours, ...]      # all of them, in the order of the synthetic table
    constraints: [started <= ended]      # of every record
    repairs:                             # of synthetic rows alone
      - not_null: [age]
    related: [[age, income]]             # pairs that a workload without them has too

The last numeric bin is closed; the others contain only their lower edge. ``bounds`` with ``bins``
means edges of equal width; integers without ``bins`` get a bin a value. In ``impossible`` a
condition is a value, ``null``, for numbers ``{from: x, below: y}`` (either may be left out; both
must be edges of bins) or ``{bins: [0, 1]}``, or a list of these. ``unreadable: missing`` counts
what is not a number, or not among the values of an attribute without ``other``, as missing;
``unreadable: apart`` in a cell of its own, which released rows have as missing.
``within: [[40, 310], [41, 60, 95]]`` says what the numbers of a bin are like in public data: 40
with weight 310, and 41 to 60 with weight 95. A draft has it at the end of the file, by
attribute, and that of children at the end of their table. `jam_dagster.tables.domain.derived` says
what an expression may hold, and `jam_dagster.tables.domain.constraints` how constraints are
written.

``prefix`` declares codes by their first characters, so many of them; a cell decodes to one of the
codes that begin so, by their ``weights`` in public data.

A ``unit`` declares dates, timestamps, times of day or durations; a bound counts as a whole::

      departure: {bounds: [2013-07-01, 2013-07-31], unit: hour, every: day, zone: America/New_York}

``edges: paid`` asks a release without a public table to buy the edges: at most so many ``bins``, at
quantiles of noisy counts within a ``range``, or within all that the type can hold. ``share`` is the
part of the release's rho that pays. The domain of a release has under ``bought`` what was counted,
and under ``kept`` by which entries edges of the release before were bought::

      income: {edges: paid, bins: 24, range: [0, 1.0e+9], decimals: 2}
      visited: {edges: paid, unit: day}

``values: paid`` asks for the values that surely many records have, at most so many of them next to
those that are public. ``delta_share`` is the part of the release's delta that bounds the
probability with which a value of one person alone is among them; all others become ``other``::

      diagnosis: {values: paid, at_most: 200, public: [I10, E11]}

The papers' form, ``{"age": 32, "sex": 2}``, means integer codes 0 to size - 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from jam_dagster.common.files import OWNER_ONLY, read_text_bytes, write_whole
from jam_dagster.common.json_text import parse_json
from jam_dagster.common.validation import (
    as_list,
    as_number,
    as_text,
    check_keys,
    is_integer,
)
from jam_dagster.common.yaml_text import parse_yaml, write_yaml
from jam_dagster.errors import DomainError, SourceError, SpecificationError
from jam_dagster.tables.domain.attributes import Attribute, Key, dtype_in
from jam_dagster.tables.domain.bought import (
    PAID,
    Asked,
    PaidCounts,
    Recorded,
    listed_entry,
    template_entry,
)
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.children import linked_in
from jam_dagster.tables.domain.constraints import Repair, constraints_from
from jam_dagster.tables.domain.derived import DerivedColumn
from jam_dagster.tables.domain.impossible import (
    impossible_from,
)
from jam_dagster.tables.domain.lookups import Lookup
from jam_dagster.tables.domain.numbering import numbers_from
from jam_dagster.tables.domain.numeric import NumericAttribute
from jam_dagster.tables.domain.prefixes import PrefixAttribute
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.totals import totals_from
from jam_dagster.tables.domain.unique import Unique
from jam_dagster.tables.domain.within_roots import RootRule, among_siblings, between_tables

DOMAIN_KEYS = {
    "attributes": Key(
        "**needed**", "each modelled column by its name, in the synthetic table's order"
    ),
    "impossible": Key("none", "combinations that cannot occur"),
    "constraints": Key("none", "what holds between the columns of every record"),
    "repairs": Key("none", "what synthetic rows alone are changed to keep"),
    "derived": Key("none", "columns that are computed, not modelled"),
    "columns": Key("the attributes, then the derived ones", "all columns, in their order"),
    "related": Key(
        "[those that the public table relates](../data.md#the-release)",
        "pairs of columns that a workload without them has too",
    ),
    "children": Key("none", "a second table, whose rows belong to rows of this one"),
    "share": Key(
        "`0.2`",
        "the part of the release's rho that buys what `edges: paid` or `values: paid` ask for",
    ),
    "delta_share": Key("`0.5`", "the part of the release's delta that selects values"),
    "bought": Key(
        "none", "in a domain that was bought: the domain that asked, and what was counted"
    ),
    "kept": Key(
        "none",
        "in a release of a chain: by which entries the edges were bought that it keeps of the"
        " release before; decides nothing of this one",
    ),
    "identified_from": Key(
        "`declared`",
        "`declared`, `public` or `private`: what the domain was made from. `private` makes every"
        " release with it restricted",
    ),
    "within": Key("none", "what the numbers of bins are like, by attribute"),
}
"""The keys of a domain file."""

KINDS: dict[str, type[Attribute]] = {
    "values": CategoricalAttribute,
    "prefix": PrefixAttribute,
    "unit": TimeAttribute,
    "": NumericAttribute,
}
"""Each kind of attributes, by a key that no other one has; the last has none."""

_CELLS = (*(key for key, kind in KINDS.items() if not kind.binned), "edges", "bounds")
"""The keys that say what the cells of an attribute are."""

_MAX_ATTRIBUTES = 10_000
_MAX_CODES = 1_000_000
_MAX_VALUES = 2**22


def domain_from_dict(content: Mapping[str, Any], domain_class: Any) -> Any:
    """Build a domain, of the class `Domain`, from the content of a domain file."""
    if not isinstance(content, Mapping) or not content:
        raise SpecificationError("a domain file must hold a mapping with the key 'attributes'")
    if "attributes" not in content or isinstance(content["attributes"], int):
        if all(is_integer(size) for size in content.values()):
            return domain_class.from_sizes({str(name): size for name, size in content.items()})
        check_keys("the domain", content, DOMAIN_KEYS)
        raise SpecificationError("the domain has no key 'attributes': list them there")
    check_keys("the domain", content, DOMAIN_KEYS)
    declared = content["attributes"]
    if not isinstance(declared, Mapping):
        raise SpecificationError("'attributes' must be a mapping of names to their declaration")
    declared = _with_within(declared, content.get("within") or {})
    content = {**content, "attributes": declared}
    content.pop("within", None)
    if content.get("bought") is not None:
        return _bought(content, domain_class)
    declared, asked = _asked(declared, content)
    attributes = _bounded(_attribute(str(name), entry) for name, entry in declared.items())
    written = content.get("derived") or {}
    if not isinstance(written, Mapping):
        raise SpecificationError("'derived' must be a mapping of names to their expression")
    derived = tuple(_derived(str(name), entry) for name, entry in written.items())
    plain = domain_class(attributes, derived=derived)
    order = as_list("the domain", "columns", content.get("columns") or [])
    repairs: Sequence[Repair] = constraints_from(plain, "repairs", content.get("repairs"))
    rules: list[RootRule] = []
    link, child = linked_in(content["children"]) if content.get("children") else (None, {})
    if link is not None:
        repairs, rules = between_tables(repairs, link, plain.names)
        own, of_roots = among_siblings(child.get("repairs"), link)
        if of_roots:
            child["repairs"] = own
            found = constraints_from(plain, "repairs", of_roots)
            rules += [one for one in found if isinstance(one, Unique)]
    domain = domain_class(
        attributes,
        impossible_from(plain, content.get("impossible")),
        content.get("identified_from", "declared"),
        derived,
        tuple(as_text("the domain", "each of 'columns'", name) for name in order),
        constraints_from(plain, "constraints", content.get("constraints")),
        tuple(repairs),
        asked=asked,
        related=_related(content.get("related")),
        kept=_kept(content.get("kept") or {}),
    )
    if link is None:
        return domain
    totals = totals_from(f"children.{link.table}.totals", child.pop("totals", {}))
    child["identified_from"] = domain.identified_from
    numbers = numbers_from(f"children.{link.table}.numbers", child.pop("numbers", {}))
    return domain.with_children(link, domain_from_dict(child, domain_class), totals, rules, numbers)


def _related(content: object) -> tuple[tuple[str, ...], ...] | None:
    """Return the pairs that are declared to be related; None: nobody said."""
    if content is None:
        return None
    pairs = as_list("the domain", "related", content)
    listed = [as_list("the domain", "each of 'related'", pair) for pair in pairs]
    return tuple(
        tuple(as_text("the domain", "each of 'related'", name) for name in pair) for pair in listed
    )


def _kept(content: object) -> dict[str, dict[str, Any]]:
    """Return the entries by which edges of an earlier release were bought."""
    if not isinstance(content, Mapping):
        raise SpecificationError("'kept' must be a mapping of attributes to entries: remove it")
    entries = {str(name): entry for name, entry in content.items()}
    if not all(isinstance(entry, Mapping) for entry in entries.values()):
        raise SpecificationError("'kept' must be a mapping of attributes to entries: remove it")
    return {name: dict(entry) for name, entry in entries.items()}


def _asked(
    declared: Mapping[str, Any], content: Mapping[str, Any]
) -> tuple[dict[str, Any], Asked | None]:
    """Return the entries without what they ask to be bought, and what that is."""
    entries: dict[str, Any] = {str(name): entry for name, entry in declared.items()}
    bins: dict[str, int] = {}
    values: dict[str, tuple[int, tuple[str, ...]]] = {}
    for name, entry in entries.items():
        if isinstance(entry, Mapping) and entry.get("edges") == PAID:
            bins[name], entries[name] = template_entry(name, entry)
        elif isinstance(entry, Mapping) and entry.get("values") == PAID:
            most, public, entries[name] = listed_entry(name, entry)
            values[name] = most, tuple(public)
    given = {key: content[key] for key in ("share", "delta_share") if content.get(key) is not None}
    if given and not (bins or values):
        raise SpecificationError(
            f"the domain has {min(given)!r}, and no attribute with `edges: paid` or `values: paid`"
        )
    return entries, Asked(bins, values, **given) if bins or values else None


def _bought(content: Mapping[str, Any], domain_class: Any) -> Any:
    """Return a domain that was bought, once it follows from what was paid for."""
    try:
        written = content["bought"]
        asked = domain_from_dict(written["asked"], domain_class)
        counts = [PaidCounts.from_dict(one) for one in written["counts"]]
    except (KeyError, TypeError, ValueError) as error:
        raise DomainError(
            f"the domain's part 'bought' is damaged ({type(error).__name__}): restore its file"
        ) from None
    recorded = Recorded(counts)
    domain = asked.buy(recorded)
    recorded.end()
    if domain.to_dict() != dict(content):
        raise DomainError(
            "the domain does not follow from the counts that were paid for: restore its file"
        )
    return domain


def _with_within(declared: Mapping[Any, Any], within: object) -> Mapping[Any, Any]:
    """Return the entries of attributes with those of `within` at the end of the file."""
    if not isinstance(within, Mapping):
        raise SpecificationError("'within' must be a mapping of attributes to entries")
    found = dict(declared)
    for name, entries in within.items():
        entry = found.get(name)
        if not isinstance(entry, Mapping) or "within" in entry:
            raise SpecificationError(
                f"'within' has entries of {str(name)!r}, which is no attribute, or has such entries"
                " itself: remove one of the two"
            )
        found[name] = {**entry, "within": entries}
    return found


def numbered(sizes: Mapping[str, int]) -> tuple[Attribute, ...]:
    """Return the attributes of the papers' form: integer codes from 0 to below a size."""
    return _bounded(_numbered(name, size) for name, size in sizes.items())


def _numbered(name: str, size: int) -> Attribute:
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= _MAX_CODES:
        raise DomainError(
            f"attribute {name!r}: the number of codes must be an integer from 1 to"
            f" {_MAX_CODES:,}, got {size!r}"
        )
    return CategoricalAttribute(str(name), tuple(range(size)))


def _bounded(attributes: Iterable[Attribute]) -> tuple[Attribute, ...]:
    """Return attributes as they are made, unless they become too many, or have too many values.

    A file of some kilobytes may ask for a million values of each of a thousand attributes.
    """
    found, values = [], 0
    for one in attributes:
        found.append(one)
        values += one.size
        if len(found) > _MAX_ATTRIBUTES or values > _MAX_VALUES:
            raise DomainError(
                f"the domain has more than {_MAX_ATTRIBUTES:,} attributes, or more than"
                f" {_MAX_VALUES:,} values of all attributes together: declare fewer"
            )
    return tuple(found)


def read_domain(path: str | Path) -> Any:
    """Return the content of a domain file; ``.json`` is JSON, ``.yaml`` and ``.yml`` are YAML."""
    path = Path(path)
    is_json = _is_json(path)
    try:
        text = read_text_bytes(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"cannot read domain file {path}: {type(error).__name__}; check the path and that the"
            " file is UTF-8 text"
        ) from None
    try:
        return parse_json(text) if is_json else parse_yaml(text)
    except (ValueError, yaml.YAMLError) as error:
        raise SourceError(f"cannot parse domain file {path}: {error}") from None


def save_domain(
    content: dict[str, Any],
    path: str | Path,
    comments: Iterable[tuple[int, str]] = (),
    end: Iterable[str] = (),
) -> None:
    """Write a domain file; ``.json`` is JSON, ``.yaml`` and ``.yml`` are YAML.

    Comments are for YAML: by increasing places among attributes and comments, and at the end.
    """
    path = Path(path)
    if _is_json(path):
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    else:
        text = domain_yaml(content, comments) + "".join(f"# {line}\n" for line in end)
    # Values of a private table are for the owner of the file alone.
    if content["identified_from"] == "private":
        write_whole(path, text.encode(), mode=OWNER_ONLY)
    else:
        path.write_text(text, encoding="utf-8")


def domain_yaml(content: Mapping[str, Any], comments: Iterable[tuple[int, str]] = ()) -> str:
    """Return the text of a domain file in YAML."""
    content = _within_last(content)
    if content.get("children"):
        ((table, child),) = content["children"].items()
        content["children"] = {table: _within_last(child)}
    attributes, content["attributes"] = content["attributes"], {}
    entries = [write_yaml({"_": {name: attributes[name]}}).split("\n", 1)[1] for name in attributes]
    for index, comment in comments:
        entries.insert(index, f"  # {comment}\n")
    head, _, rest = write_yaml(content).partition("attributes: {}\n")
    return f"{head}attributes:\n{''.join(entries)}{rest}"


def _within_last(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return content with `within` of all attributes at its end: long lists that nobody edits."""
    attributes: dict[str, Any] = {}
    within: dict[str, Any] = {}
    for name, entry in content["attributes"].items():
        attributes[name] = {key: value for key, value in entry.items() if key != "within"}
        if "within" in entry:
            within[name] = entry["within"]
    return {**content, "attributes": attributes} | ({"within": within} if within else {})


def _is_json(path: Path) -> bool:
    if path.suffix.lower() not in (".json", ".yaml", ".yml"):
        raise SpecificationError(f"domain file {path} must end in .yaml, .yml or .json")
    return path.suffix.lower() == ".json"


def _attribute(name: str, entry: object) -> Attribute:
    what = f"attribute {name!r}"
    if not isinstance(entry, Mapping):
        raise SpecificationError(
            f"{what} must be a mapping with one of {', '.join(_CELLS)}, got {entry!r}"
        )
    if sum(key in entry for key in _CELLS) != 1:
        check_keys(what, entry, tuple(dict.fromkeys(chain(*(one.keys for one in KINDS.values())))))
        raise SpecificationError(f"{what} needs one of {', '.join(_CELLS)}")
    kind = next(kind for key, kind in KINDS.items() if not key or key in entry)
    check_keys(what, entry, kind.keys)
    return kind.from_entry(name, entry)


def _derived(name: str, entry: object) -> DerivedColumn:
    what = f"derived column {name!r}"
    if isinstance(entry, Mapping) and "lookup" in entry:
        check_keys(what, entry, ("lookup", "values", "dtype"))
        return DerivedColumn(name, Lookup.from_entry(what, entry), dtype_in(what, entry))
    given = entry if isinstance(entry, Mapping) else {"expression": entry}
    check_keys(what, given, ("expression", "values", "dtype", "at_least"))
    expression = given.get("expression")
    if expression is not None and not isinstance(expression, str | int | float):
        raise SpecificationError(f"{what} must be an expression, a number or null")
    values = given.get("values") or {}
    if not isinstance(values, Mapping):
        raise SpecificationError(f"{what}: values must map values of the expression to others")
    least = given.get("at_least")
    least = None if least is None else float(as_number(what, "at_least", least))
    return DerivedColumn(name, expression, dtype_in(what, given), tuple(values.items()), least)

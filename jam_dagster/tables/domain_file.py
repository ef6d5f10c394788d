"""The file form of a domain, in YAML or JSON.

::

    identified_from: declared            # declared, public or private
    attributes:
      age: {bounds: [17, 90], bins: 32, integer: true, outside: clip}
      income: {edges: [0, 10000, 25000, 100000], decimals: 2, nullable: true}
      workclass: {values: [Private, State-gov, other], other: other, nullable: true}
    impossible:                          # each entry: what cannot occur together
      - {age: {below: 15}, marital-status: [Married, Widowed]}
      - {employed: [no, null], income: {from: 25000}}

The last of the numeric bins is closed, the others contain their lower edge only. ``bounds`` with
``bins`` stands for edges of equal width; integers without ``bins`` get a bin a value. In
``impossible`` a condition is a value, ``null``, for numbers ``{from: x, below: y}`` (either may
be left out; both have to fall between bins) or ``{bins: [0, 1]}``, or a list of these.

The papers' form, ``{"age": 32, "sex": 2}``, stands for integer codes 0 to size - 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import yaml

from jam_dagster.errors import DomainError, SourceError, SpecificationError
from jam_dagster.tables.attributes import (
    Attribute,
    CategoricalAttribute,
    NumericAttribute,
    Value,
    equal_width_edges,
    text_of,
)
from jam_dagster.tables.domain import Domain, ImpossibleCombination

_DOMAIN_KEYS = ("attributes", "impossible", "identified_from")
_CATEGORICAL_KEYS = ("values", "other", "nullable", "dtype")
_NUMERIC_KEYS = (
    "edges",
    "bounds",
    "bins",
    "integer",
    "decimals",
    "outside",
    "nullable",
    "dtype",
)
_CONDITION_KEYS = ("from", "below", "bins")
_MAX_BINS = 1_000_000


def domain_from_dict(content: Mapping[str, Any]) -> Domain:
    """Build a domain from the content of a domain file."""
    if not isinstance(content, Mapping) or not content:
        raise SpecificationError("a domain file must hold a mapping with the key 'attributes'")
    if "attributes" not in content or isinstance(content["attributes"], int):
        if all(_is_int(size) for size in content.values()):
            return Domain.from_sizes({str(name): size for name, size in content.items()})
        _check_keys("the domain", content, _DOMAIN_KEYS)
        raise SpecificationError("the domain has no key 'attributes': list them there")
    _check_keys("the domain", content, _DOMAIN_KEYS)
    declared = content["attributes"]
    if not isinstance(declared, Mapping):
        raise SpecificationError("'attributes' must be a mapping of names to their declaration")
    attributes = tuple(_attribute(str(name), entry) for name, entry in declared.items())
    plain = Domain(attributes)
    entries = content.get("impossible") or []
    if not isinstance(entries, list | tuple):
        raise SpecificationError("'impossible' must be a list of combinations")
    impossible = tuple(_combination(plain, entry) for entry in entries)
    return Domain(attributes, impossible, content.get("identified_from", "declared"))


def domain_to_dict(domain: Domain) -> dict[str, Any]:
    """Return the content of a domain file, as short as `domain_from_dict` allows."""
    content: dict[str, Any] = {
        "identified_from": domain.identified_from,
        "attributes": {one.name: _attribute_to_dict(one) for one in domain.attributes},
    }
    if domain.impossible:
        content["impossible"] = [
            {
                name: _condition_to_content(domain.attribute(name), codes)
                for name, codes in zip(one.attributes, one.codes, strict=True)
            }
            for one in domain.impossible
        ]
    return content


def load_domain(path: str | Path) -> Domain:
    """Read a domain file; ``.json`` is JSON, ``.yaml`` and ``.yml`` are YAML."""
    path = Path(path)
    is_json = _is_json(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"cannot read domain file {path}: {type(error).__name__}; check the path and that the"
            " file is UTF-8 text"
        ) from None
    try:
        if is_json:
            content = json.loads(text, object_pairs_hook=_unique_pairs)
        else:
            content = yaml.load(text, Loader=_Loader)  # noqa: S506 - derives from SafeLoader
    except (json.JSONDecodeError, yaml.YAMLError) as error:
        raise SourceError(f"cannot parse domain file {path}: {error}") from None
    return domain_from_dict(content)


def save_domain(domain: Domain, path: str | Path) -> None:
    """Write a domain file; ``.json`` is JSON, ``.yaml`` and ``.yml`` are YAML."""
    path = Path(path)
    content = domain_to_dict(domain)
    if _is_json(path):
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    else:
        text = yaml.dump(
            content,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            default_flow_style=None,
            width=100,
        )
    path.write_text(text, encoding="utf-8")


def _is_json(path: Path) -> bool:
    if path.suffix.lower() not in (".json", ".yaml", ".yml"):
        raise SpecificationError(f"domain file {path} must end in .yaml, .yml or .json")
    return path.suffix.lower() == ".json"


class _Loader(yaml.SafeLoader):
    """YAML 1.2: ``no``, ``on``, ``12:30`` and ``2024-01-31`` are texts. Keys must be unique."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        pairs = [(self.construct_object(key, deep=True), key) for key, _ in node.value]
        seen: set[Hashable] = set()
        for key, key_node in pairs:
            if not isinstance(key, Hashable) or key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is not usable or occurs twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that any version of YAML would read as something else."""

    yaml_implicit_resolvers = {
        first: list(resolvers)
        for first, resolvers in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
):
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first)
        )


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(str(loader.construct_scalar(node)))


# YAML 1.1 would read 010 as eight.
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise SpecificationError(f"the domain file has key {key!r} twice: remove one")
        mapping[key] = value
    return mapping


def _attribute(name: str, entry: object) -> Attribute:
    what = f"attribute {name!r}"
    if not isinstance(entry, Mapping):
        raise SpecificationError(
            f"{what} must be a mapping with 'values', 'edges' or 'bounds', got {entry!r}"
        )
    if sum(key in entry for key in ("values", "edges", "bounds")) != 1:
        _check_keys(what, entry, tuple(dict.fromkeys(_CATEGORICAL_KEYS + _NUMERIC_KEYS)))
        raise SpecificationError(f"{what} needs one of 'values', 'edges' and 'bounds'")
    if "values" in entry:
        _check_keys(what, entry, _CATEGORICAL_KEYS)
        return CategoricalAttribute(
            name,
            tuple(_list(what, "values", entry["values"])),
            nullable=_boolean(what, "nullable", entry),
            other=entry.get("other"),
            dtype=_dtype(what, entry),
        )
    _check_keys(what, entry, _NUMERIC_KEYS)
    outside = entry.get("outside", "error")
    if outside not in ("error", "clip"):
        raise SpecificationError(f"{what}: outside must be 'error' or 'clip', got {outside!r}")
    decimals = entry.get("decimals")
    if decimals is not None and not _is_int(decimals):
        raise SpecificationError(f"{what}: decimals must be an integer, got {decimals!r}")
    return NumericAttribute(
        name,
        _edges(what, entry),
        integer=_boolean(what, "integer", entry),
        nullable=_boolean(what, "nullable", entry),
        clip=outside == "clip",
        decimals=decimals,
        dtype=_dtype(what, entry),
    )


def _edges(what: str, entry: Mapping[str, Any]) -> tuple[float, ...]:
    if "edges" in entry:
        if "bins" in entry:
            raise SpecificationError(f"{what} has 'edges' and 'bins': bins belong to 'bounds'")
        return tuple(_list(what, "edges", entry["edges"]))
    bounds = _list(what, "bounds", entry["bounds"])
    if len(bounds) != 2 or not all(_is_int(one) or isinstance(one, float) for one in bounds):
        raise SpecificationError(f"{what}: bounds must be two numbers, got {bounds!r}")
    low, high = bounds
    bins = entry.get("bins")
    if bins is None and entry.get("integer") is True and np.isfinite([low, high]).all():
        bins = int(np.floor(high) - np.ceil(low)) + 1
    if not _is_int(bins) or not 1 <= bins <= _MAX_BINS:
        raise SpecificationError(
            f"{what}: bins must be an integer from 1 to {_MAX_BINS:,}, got {bins!r}"
        )
    if low == high and bins == 1:
        # A bin of one value, closed like every last bin.
        return (float(low), float(np.nextafter(low, np.inf)))
    return equal_width_edges(low, high, bins)


def _attribute_to_dict(attribute: Attribute) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if isinstance(attribute, CategoricalAttribute):
        entry["values"] = list(attribute.values)
        if attribute.other is not None:
            entry["other"] = attribute.other
        default = CategoricalAttribute("x", attribute.values, attribute.nullable).dtype
    else:
        entry |= _edges_to_dict(attribute)
        if attribute.integer:
            entry["integer"] = True
        if attribute.decimals is not None:
            entry["decimals"] = attribute.decimals
        if attribute.clip:
            entry["outside"] = "clip"
        default = "float64"
        if attribute.integer:
            default = "Int64" if attribute.nullable else "int64"
    if attribute.nullable:
        entry["nullable"] = True
    if attribute.dtype != default:
        entry["dtype"] = attribute.dtype
    return entry


def _edges_to_dict(attribute: NumericAttribute) -> dict[str, Any]:
    low, high = attribute.edges[0], attribute.edges[-1]
    if attribute.bins > 2 and attribute.edges == equal_width_edges(low, high, attribute.bins):
        return {"bounds": [_short(low), _short(high)], "bins": attribute.bins}
    return {"edges": [_short(edge) for edge in attribute.edges]}


def _short(number: float) -> int | float:
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _combination(domain: Domain, entry: object) -> ImpossibleCombination:
    if not isinstance(entry, Mapping) or not entry:
        raise SpecificationError(
            "an impossible combination must be a mapping of attributes to conditions,"
            f" got {entry!r}"
        )
    clique = domain.canonical(str(name) for name in entry)
    conditions = {str(name): condition for name, condition in entry.items()}
    return ImpossibleCombination(
        clique, tuple(_codes(domain.attribute(name), conditions[name]) for name in clique)
    )


def _codes(attribute: Attribute, condition: object) -> tuple[int, ...]:
    items = condition if isinstance(condition, list | tuple) else [condition]
    codes = {code for item in items for code in _item_codes(attribute, item)}
    if not codes:
        raise DomainError(
            f"an impossible combination has a condition on {attribute.name!r} that no value meets"
        )
    return tuple(sorted(codes))


def _item_codes(attribute: Attribute, item: object) -> list[int]:
    what = f"the condition on {attribute.name!r} of an impossible combination"
    if item is None:
        if attribute.null_code is None:
            raise DomainError(f"{what} is null, but the attribute is not nullable")
        return [attribute.null_code]
    if isinstance(attribute, CategoricalAttribute):
        labels = [text_of(value) for value in attribute.values]
        if isinstance(item, Mapping) or text_of(item) not in labels:
            raise DomainError(f"{what} is {item!r}, which is not one of its values")
        return [labels.index(text_of(item))]
    low, high = attribute.bin_limits
    if isinstance(item, Mapping):
        _check_keys(what, item, _CONDITION_KEYS)
        if "bins" in item:
            if len(item) > 1:
                raise SpecificationError(f"{what} has 'bins' beside other keys: split it")
            bins = _list(what, "bins", item["bins"])
            if not all(_is_int(code) and 0 <= code < attribute.bins for code in bins):
                raise DomainError(f"{what} has bins outside 0 to {attribute.bins - 1}")
            return list(bins)
        chosen = np.ones(attribute.bins, dtype=bool)
        for key, after in (("from", True), ("below", False)):
            if key in item:
                bound = item[key]
                if not _is_int(bound) and not isinstance(bound, float):
                    raise SpecificationError(f"{what}: {key} must be a number, got {bound!r}")
                if ((low < bound) & (bound <= high)).any():
                    raise DomainError(
                        f"{what}: {key} {bound!r} cuts through a bin: use one of its edges, or"
                        " change the edges"
                    )
                chosen &= (low >= bound) if after else (high < bound)
        return [int(code) for code in np.flatnonzero(chosen)]
    if not _is_int(item) and not isinstance(item, float):
        raise SpecificationError(f"{what} must be a number or {{from: x, below: y}}, got {item!r}")
    match = np.flatnonzero((low == item) & (high == item))
    if not len(match):
        raise DomainError(
            f"{what} is {item!r}, which is not the only value of a bin: use from/below"
        )
    return [int(match[0])]


def _condition_to_content(attribute: Attribute, codes: tuple[int, ...]) -> Any:
    plain = [code for code in codes if code != attribute.null_code]
    null: list[Value | None] = [None] if len(plain) < len(codes) else []
    if isinstance(attribute, CategoricalAttribute):
        return [attribute.values[code] for code in plain] + null
    low, _ = attribute.bin_limits
    runs = [
        [code for _, code in run]
        for _, run in groupby(enumerate(plain), lambda one: one[1] - one[0])
    ]
    items: list[Any] = []
    for run in runs:
        interval: dict[str, Any] = {}
        if run[0] > 0 or len(run) == attribute.bins:
            interval["from"] = _short(float(low[run[0]]))
        if run[-1] + 1 < attribute.bins:
            interval["below"] = _short(float(low[run[-1] + 1]))
        items.append(interval)
    items += null
    return items[0] if len(items) == 1 and items[0] is not None else items


def _check_keys(what: str, entry: Mapping[Any, Any], allowed: tuple[str, ...]) -> None:
    for key in entry:
        if key not in allowed:
            raise SpecificationError(
                f"{what} has the unknown key {key!r}: allowed are {', '.join(allowed)}"
            )


def _list(what: str, key: str, content: object) -> list[Any]:
    if not isinstance(content, list | tuple):
        raise SpecificationError(f"{what}: {key} must be a list, got {content!r}")
    return list(content)


def _boolean(what: str, key: str, entry: Mapping[str, Any]) -> bool:
    content = entry.get(key, False)
    if not isinstance(content, bool):
        raise SpecificationError(f"{what}: {key} must be true or false, got {content!r}")
    return content


def _dtype(what: str, entry: Mapping[str, Any]) -> str | None:
    content = entry.get("dtype")
    if content is not None and not isinstance(content, str):
        raise SpecificationError(f"{what}: dtype must be a text such as int64, got {content!r}")
    return content


def _is_int(content: object) -> TypeGuard[int]:
    return isinstance(content, int) and not isinstance(content, bool)

"""Random domains: `hypothesis.strategies.from_type(Domain)` draws one."""

import numpy as np
from hypothesis import strategies as st

from jam_dagster.tables import (
    CategoricalAttribute,
    Domain,
    EncodedTable,
    ImpossibleCombination,
    NumericAttribute,
    PrefixAttribute,
)
from jam_dagster.tables.domain.values import text_of

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    [
        "yes",
        "no",
        "null",
        "~",
        "1e3",
        "1_000",
        "0x1f",
        "12:30",
        "2024-01-31",
        "010",
        " a b ",
        "=",
        "-",
    ]
)
values = texts | st.integers(-(2**40), 2**40) | st.booleans() | st.floats(-1e9, 1e9, width=32)


@st.composite
def categorical_attributes(draw, name: str) -> CategoricalAttribute:
    kind = draw(st.sampled_from([values, texts, st.integers(-99, 99), st.booleans()]))
    chosen = draw(st.lists(kind, min_size=1, max_size=6, unique_by=text_of))
    other = draw(st.none() | st.sampled_from(chosen))
    return CategoricalAttribute(name, tuple(chosen), other, nullable=draw(st.booleans()))


@st.composite
def numeric_attributes(draw, name: str) -> NumericAttribute:
    flags = {"nullable": draw(st.booleans()), "clip": draw(st.booleans())}
    if flags["nullable"]:
        flags["unreadable"] = draw(st.sampled_from(["error", "missing", "apart"]))
    kind = draw(st.sampled_from(["integer", "decimals", "float64", "float32"]))
    if kind == "integer":
        edges = draw(st.lists(st.integers(-1000, 1000), min_size=2, max_size=8, unique=True))
        return NumericAttribute(name, tuple(sorted(edges)), integer=True, **flags)
    if kind == "decimals":
        decimals = draw(st.integers(0, 4))
        points = draw(st.lists(st.integers(-9999, 9999), min_size=2, max_size=8, unique=True))
        edges = tuple(point / 10**decimals for point in sorted(points))
        return NumericAttribute(name, edges, decimals=decimals, **flags)
    width = int(kind[-2:])
    edges = draw(
        st.lists(st.floats(-(2.0**60), 2.0**60, width=width), min_size=2, max_size=8, unique=True)
    )
    return NumericAttribute(name, tuple(sorted(edges)), dtype=kind, **flags)


@st.composite
def prefix_attributes(draw, name: str) -> PrefixAttribute:
    codes = draw(st.lists(texts.filter(bool), min_size=1, max_size=8, unique=True))
    prefix = draw(st.integers(1, 4))
    other = draw(st.none() | texts)
    if other is not None and other[:prefix] in {code[:prefix] for code in codes}:
        other = None
    weights = draw(st.lists(st.integers(1, 9), min_size=len(codes), max_size=len(codes)))
    return PrefixAttribute(
        name,
        other,
        prefix=prefix,
        weights=tuple(zip(codes, weights, strict=True)),
        nullable=draw(st.booleans()),
    )


@st.composite
def domains(draw) -> Domain:
    attributes = tuple(
        draw(
            st.one_of(
                categorical_attributes(name), numeric_attributes(name), prefix_attributes(name)
            )
        )
        for name in draw(st.lists(names, min_size=1, max_size=4, unique=True))
    )
    impossible = []
    for _ in range(draw(st.integers(0, 2))):
        chosen = draw(st.lists(st.sampled_from(attributes), min_size=1, max_size=2, unique=True))
        codes = tuple(
            tuple(draw(st.sets(st.integers(0, one.size - 1), min_size=1, max_size=one.size)))
            for one in chosen
        )
        combination = ImpossibleCombination(tuple(one.name for one in chosen), codes)
        masks = Domain(attributes).impossible_masks()
        try:
            Domain(attributes, (*impossible, combination))
        except ValueError:
            assert masks == {}
            continue
        impossible.append(combination)
    provenance = draw(st.sampled_from(["declared", "public", "private"]))
    return Domain(attributes, tuple(impossible), provenance)


@st.composite
def encoded_tables(draw) -> EncodedTable:
    """A table over a domain without impossible combinations, as a release has it."""
    domain = draw(domains())
    domain = Domain(domain.attributes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = draw(st.integers(1, 30))
    codes = tuple(rng.integers(0, size, rows) for size in domain.shape)
    return EncodedTable(domain, codes).as_released()


st.register_type_strategy(Domain, domains())
st.register_type_strategy(EncodedTable, encoded_tables())

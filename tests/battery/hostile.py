"""Inputs that nobody should give: made from a seed, so that what broke once breaks again."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

TEXT = "SENTINEL-9c1d"
NUMBER = 7331957.125
"""Planted in private tables; no message may hold them."""

ATOMS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 10**6, 2**63, -(2**70), 10**400),
    *(0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf),
    *("", " ", "a", "0", "1e400", "nan", "null", "(null)", "other", "\x00", "\ud800", "é" * 300),
    *("{{ env }}", "'; drop table", "%s{}", "a/b", "..", "1_000", "true", "\u202e", "\n"),
    *(b"\xff", Decimal("NaN"), Decimal("1E+999"), 1j, datetime.date(2024, 2, 30 - 1)),
    *(np.int64(3), np.float32("inf"), np.str_("a"), np.datetime64("NaT"), (), frozenset()),
)
DOMAIN: dict[str, Any] = {
    "identified_from": "declared",
    "attributes": {
        "age": {"bounds": [17, 90], "bins": 4, "integer": True, "outside": "clip"},
        "income": {"edges": [0, 10.5, 20, 99], "decimals": 2, "nullable": True},
        "town": {"values": ["Aix", "Bern", "other"], "other": "other", "nullable": True},
        "member": {"values": [True, False], "dtype": "bool"},
        "code": {"values": [1, 2, 3]},
    },
    "impossible": [
        {"age": {"bins": [0]}, "member": [True]},
        {"town": [None, "Bern"], "income": {"from": 20}},
    ],
    "derived": {
        "group": 'text(age // 10 * 10, 3) + "/" + town',
        "share": {"expression": "income / (age - 17) % code", "dtype": "float32"},
        "key": "uuid()",
        "left": None,
        "country": {
            "lookup": ["town", "code"],
            "values": [["Aix", 1, "F"], ["Bern", 2, ["CH", None]], [None, 3, None]],
        },
        "label": {"expression": "town", "values": {"Bern": "=1+1", "other": "none"}},
        # Most of what may be done to a text is fine. Dagster takes the quotes off a text alone.
        "note": f'"{"any word " * 40}" + ""',
    },
    "columns": [
        "key",
        "age",
        "group",
        "income",
        "town",
        "member",
        "code",
        "share",
        "left",
        "note",
        "label",
        "country",
    ],
    "repairs": [
        {"formula": {"income": "round(clock_minutes(age) / code, 2)"}},
        {"missing": "town", "where": {"income": None}},
        {"missing": ["town", "income"]},
        {"missing": "income", "only_where": {"age": {"bins": [0, 1]}}},
        {"not_null": ["town"]},
    ],
}
# Values that fit a key of the domain file, and nothing else there.
RULES: tuple[Any, ...] = (
    *("age + code", "income", "year(town)", "text(age, 100)", "row() % 7", "1 // (code - 1)"),
    *("code * 1e308 * 1e308", "9007199254740991 * age", "a ** 9", "-" * 400 + "age", "(" * 400),
    *({"income": "age"}, {"age": "income + country"}, {"town": None}, {"lookup": ["country"]}),
    *(["town", "town"], [["Aix", 1, 2]], [["Aix", 1, [1, "F"]]], [[math.nan, 1, 2]]),
    *([[["Aix"], 1, "F"]], [["Aix", 1, "=1"]], [["Aix", 1, "x" * 2000]], ["town", "nowhere"]),
)
MARKS = (*"{}[]:,-&*!|>'\"%@`#?\t\n\0~<=\\é", "&a ", "*a", "<<: ")
KEYS = (
    *("attributes", "impossible", "identified_from", "values", "edges", "bounds", "bins"),
    *("derived", "columns", "expression", "group", "repairs", "constraints"),
    *("lookup", "formula", "missing", "where", "only_where", "country", "income"),
    *("integer", "decimals", "outside", "nullable", "dtype", "other", "age", "town", "from"),
)


def pick(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def anything(rng: np.random.Generator, depth: int = 2) -> Any:
    """Return a value of any type, containers among them."""
    if rng.random() < 0.1:
        return pick(rng, RULES)
    if depth == 0 or rng.random() < 0.7:
        return pick(rng, ATOMS)
    if rng.random() < 0.5:
        return [anything(rng, depth - 1) for _ in range(rng.integers(4))]
    keys = [pick(rng, KEYS) if rng.random() < 0.8 else pick(rng, ATOMS) for _ in range(3)]
    return {key: anything(rng, depth - 1) for key in keys}


def spoiled(value: Any, rng: np.random.Generator, chance: float = 0.04) -> Any:
    """Return a copy of nested values in which some are replaced, dropped, doubled or renamed."""
    if rng.random() < chance:
        return anything(rng)
    if isinstance(value, dict):
        changed = {}
        for key, one in value.items():
            fate = rng.random() / chance
            if fate < 0.5:
                continue
            name = pick(rng, (*KEYS, *ATOMS)) if fate < 1.0 else key
            changed[name] = spoiled(one, rng, chance)
        return changed
    if isinstance(value, list):
        changed_list = [spoiled(one, rng, chance) for one in value]
        if rng.random() < chance:
            rng.shuffle(changed_list)
        return changed_list * 2 if rng.random() < chance / 2 else changed_list
    return value


def garbled(text: str, rng: np.random.Generator) -> bytes:
    """Return a text with a few characters or lines changed, perhaps not UTF-8 any more."""
    held = list(text)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(len(held)))
        fate = rng.integers(5)
        if fate == 0:
            del held[at : at + int(rng.integers(1, 20))]
        elif fate == 1:
            held[at:at] = pick(rng, MARKS)
        elif fate == 2:
            held[at:at] = held[at : at + 30]
        elif fate == 3:
            held[at] = str(pick(rng, [1e999, -1, 10**30, "null", "no", "0x1f", "1:30", "!!set"]))
        else:
            other = int(rng.integers(len(held)))
            held[at], held[other] = held[other], held[at]
        held = held or ["x"]
    encoded = "".join(held).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        at = int(rng.integers(len(encoded) + 1))
        encoded = encoded[:at] + b"\xff\xfe" + encoded[at:]
    return encoded


class Spiteful:
    """A value that cannot be printed, compared or hashed."""

    def __str__(self) -> str:
        raise ValueError(TEXT)

    __repr__ = __str__
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError(TEXT)


COLUMNS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "age": lambda rng, rows: rng.integers(40, 90, rows),
    "income": lambda rng, rows: rng.uniform(0, 19.9, rows).round(2),
    "town": lambda rng, rows: rng.choice(["Aix", "Bern", "Cork"], rows),
    "member": lambda rng, rows: rng.random(rows) < 0.5,
    "code": lambda rng, rows: rng.integers(1, 4, rows),
}
CELLS: tuple[Any, ...] = (*ATOMS, TEXT, NUMBER, int(NUMBER), -NUMBER, str(NUMBER))


def table(rng: np.random.Generator) -> pd.DataFrame:
    """Return a table for `DOMAIN`, often with something in it that does not belong there."""
    rows = int(pick(rng, (0, 1, 2, 7)))
    frame = pd.DataFrame({name: make(rng, rows) for name, make in COLUMNS.items()})
    for _ in range(int(rng.integers(4))):
        name = pick(rng, list(COLUMNS))
        fate = rng.integers(8)
        if fate < 4 and len(frame) and isinstance(frame.get(name), pd.Series):
            held = frame[name].astype(object).tolist()
            held[int(rng.integers(len(held)))] = (
                Spiteful() if rng.random() < 0.05 else pick(rng, CELLS)
            )
            # As a list of objects: pandas would take a tuple for several cells.
            column = np.empty(len(held), dtype=object)
            column[:] = held
            frame[name] = pd.Series(column, index=frame.index, dtype=object)
        elif fate == 4:
            frame = frame.drop(columns=name, errors="ignore")
        elif fate == 5:
            frame = frame.rename(columns={name: pick(rng, ("age", TEXT, "code", 7))})
        elif fate == 6 and name in frame:
            kind = pick(rng, ("category", "string", "object"))
            held = frame[name]
            if isinstance(held, pd.Series) and not any(isinstance(v, Spiteful) for v in held):
                # No column of texts holds every text.
                with suppress(UnicodeError):
                    frame[name] = held.astype(str).astype(kind)
        else:
            frame = frame.sample(frac=1.0, axis=1, random_state=int(rng.integers(2**31)))
    return frame

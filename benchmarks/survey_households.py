"""The demo's households and their persons: how far a release of both is from the private ones.

    python -m benchmarks.survey_households --seeds 5

Each line has two distances, half the L1 distance of shares: of the number of persons a household,
and of the values of two persons of a household, as the mean of their columns. Noise is seeded,
epsilon is 1 and nothing is charged. Besides the mechanisms there are lines to compare with:

- public: the demo's public tables.
- independent: the private persons, each in the household of another one.
- a sample: as many private households drawn with replacement.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd

import jam_dagster
from jam_dagster.tables import Source, source_from_config

KEY, MOST = "household_id", 6
# Columns of so many values or fewer are compared.
FEW = 12
Tables = tuple[pd.DataFrame, pd.DataFrame]


def source(table: str, part: str) -> Source:
    """Return one of the demo's tables."""
    return source_from_config({"demo": table, "part": part})


def read(part: str) -> Tables:
    """Return the two tables of a part of the demo."""
    private = part == "private"
    households, persons = (source(name, part) for name in ("households", "persons"))
    return households.read(private=private), persons.read(private=private)


def fan_out(tables: Tables) -> np.ndarray:
    """Return the share of households by their number of persons."""
    households, persons = tables
    number = households[KEY].map(persons[KEY].value_counts()).fillna(0).clip(upper=MOST)
    return np.bincount(number.astype(int), minlength=MOST + 1) / len(households)


def siblings(tables: Tables, column: str, values: Sequence[str]) -> np.ndarray:
    """Return the shares of pairs of values; each household with two persons counts once."""
    _, persons = tables
    codes = pd.Index(values).get_indexer(pd.Index(persons[column].astype(object).map(str)))
    every = pd.DataFrame({KEY: persons[KEY], "row": np.arange(len(codes)), "code": codes})
    pairs = every.merge(every, on=KEY)
    pairs = pairs[pairs["row_x"] != pairs["row_y"]]
    weight = 1 / pairs.groupby(KEY)["row_x"].transform("size").to_numpy()
    cells = (pairs["code_x"] * len(values) + pairs["code_y"]).to_numpy()
    together: np.ndarray = np.bincount(cells, weights=weight, minlength=len(values) ** 2)
    together /= together.sum()
    return together


def distances(truth: Tables, made: Tables) -> list[float]:
    """Return the two distances."""
    apart = [np.abs(fan_out(made) - fan_out(truth)).sum() / 2]
    pairs = []
    for name in truth[1].columns.drop(KEY):
        values = sorted(truth[1][name].astype(object).map(str).unique())
        if len(values) <= FEW:
            ours, true = (siblings(one, name, values) for one in (made, truth))
            pairs.append(np.abs(ours - true).sum() / 2)
    return [*apart, float(np.mean(pairs))]


def released(mechanism: str, seed: int) -> Tables:
    """Return the two tables of a release."""
    persons = {part: source("persons", part) for part in ("private", "public")}
    made = jam_dagster.synthesize(
        *(source("households", part) for part in ("private", "public")),
        children={"persons": {**persons, "key": KEY, "max": MOST}},
        epsilon=1.0,
        mechanism=mechanism,
        degree=2,
        noise="numpy",
        seed=seed,
        evaluation_mode="off",
    )
    assert made.children is not None
    return made.table, made.children


def a_sample(truth: Tables, seed: int) -> Tables:
    """Return private households drawn with replacement, with their persons."""
    households, persons = truth
    drawn = households.sample(len(households), replace=True, random_state=seed)
    drawn = drawn.assign(new=np.arange(len(drawn)))
    both = drawn[[KEY, "new"]].merge(persons, on=KEY).drop(columns=KEY)
    return drawn.drop(columns=KEY).rename(columns={"new": KEY}), both.rename(columns={"new": KEY})


def independent(truth: Tables, seed: int) -> Tables:
    """Return the private tables, with persons in other households."""
    households, persons = truth
    moved = np.random.default_rng(seed).permutation(persons[KEY].to_numpy())
    return households, persons.assign(**{KEY: moved})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--mechanism", nargs="*", default=["aim", "tilt"])
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args(arguments)
    truth, public = read("private"), read("public")
    lines: dict[str, Callable[[int], Tables]] = {
        name: partial(released, name) for name in asked.mechanism
    }
    lines["public"] = lambda seed: public
    lines["independent"] = partial(independent, truth)
    lines["a sample"] = partial(a_sample, truth)
    print("line           persons siblings")
    for name, made in lines.items():
        found = np.mean([distances(truth, made(seed)) for seed in range(asked.seeds)], axis=0)
        print(f"{name:<14} {found[0]:>7.4f} {found[1]:>8.4f}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""`python -m benchmarks.tilt_splits DATA OUT`: splits that show what public data do to TILT.

DATA has the papers' tables; OUT gets a folder a split, which `jam-dagster benchmark run --data OUT`
reads. All draws are seeded. Those of `HELD_OUT` were written down before TILT ran on them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

Rows = pd.DataFrame
Sizes = dict[str, int]

BINS = 20
"""Of a column of Adult with many numbers."""

PUBLIC_ROWS = 3_000
TAXI_ROWS = 4_000

SEED = 2026
"""Of the splits by which settings are chosen."""

HELD_OUT = {"adult_drawn": 71, "adult_by_race": 72, "adult_drawn_shuffled": 73}
"""Splits that are measured once, with their seeds; and `adult_drawn` with rows of noise."""

NOISE_SEED = 74


def uniform(rows: Rows, sizes: Sizes, seed: int) -> Rows:
    """Return as many rows of independent uniform values."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.integers(sizes[name], size=len(rows)) for name in rows.columns})


def reversed_values(rows: Rows, sizes: Sizes, seed: int) -> Rows:
    """Return the rows with the last value of each attribute for its first, and so on."""
    return pd.DataFrame({name: sizes[name] - 1 - rows[name] for name in rows.columns})


def shuffled(rows: Rows, sizes: Sizes, seed: int) -> Rows:
    """Return the rows with each column in an order of its own."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.permutation(rows[name].to_numpy()) for name in rows.columns})


WRONG: dict[str, Callable[[Rows, Sizes, int], Rows]] = {
    "uniform": uniform,
    "reversed": reversed_values,
    "shuffled": shuffled,
}
"""Public tables that are plain wrong, made of right ones."""


def adult(data: Path) -> tuple[Rows, Sizes]:
    """Return UCI Adult as codes, all 15 columns."""
    raw = pd.read_csv(data / "adult_raw" / "adult.csv", skipinitialspace=True, na_values="?")
    coded, sizes = {}, {}
    for name, column in raw.items():
        known = column.dropna()
        if pd.api.types.is_numeric_dtype(column) and known.nunique() > BINS:
            # Zero, which most have in some columns, is a bin of its own.
            edges = np.quantile(known[known != 0], np.linspace(0.0, 1.0, BINS + 1)[1:-1])
            codes = np.searchsorted(np.unique([0.5, *edges]), column, side="left")
        else:
            codes = pd.Categorical(column, categories=[*sorted(known.unique())]).codes
            codes = np.where(codes < 0, known.nunique(), codes)
        coded[str(name)], sizes[str(name)] = codes, int(codes.max()) + 1
    return pd.DataFrame(coded), sizes


def drawn(table: Rows, weights: np.ndarray, rows: int, seed: int) -> tuple[Rows, Rows]:
    """Return the rest of a table, and rows drawn of it by weight."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(table), rows, replace=False, p=weights / weights.sum())
    public = np.zeros(len(table), dtype=bool)
    public[chosen] = True
    return table[~public], table[public]


def write(out: Path, name: str, private: Rows, public: Rows, sizes: Sizes) -> None:
    """Write a split as the papers' repository has them."""
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    private.to_csv(folder / "priv.csv", index=False)
    public.to_csv(folder / "pub.csv", index=False)
    (folder / "domain.json").write_text(json.dumps(sizes) + "\n")


def main() -> None:
    """Write all splits."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    for name in ("titanic", "adult_pub025_01", "adult_pub075_01", "salary"):
        folder = given.data / "paper" / name
        private, public = (pd.read_csv(folder / f"{part}.csv") for part in ("priv", "pub"))
        sizes = json.loads((folder / "domain.json").read_text())
        write(given.out, name, private, public, sizes)
        if name in ("titanic", "adult_pub025_01"):
            for kind, make in WRONG.items():
                write(given.out, f"{name}_{kind}", private, make(public, sizes, SEED), sizes)
    folder = given.data / "whole" / "nist_taxi"
    taxi, sizes = (
        pd.read_csv(folder / "table.csv"),
        json.loads((folder / "domain.json").read_text()),
    )
    weights = np.where(taxi["payment_type"] == 1, 3.0, 1.0)
    write(given.out, "taxi", *drawn(taxi, weights, TAXI_ROWS, SEED), sizes)
    table, sizes = adult(given.data)
    everyone = np.ones(len(table))
    one_sex = (table["sex"] == 0).to_numpy(dtype=float)
    write(given.out, "adult_one_sex", *drawn(table, one_sex, PUBLIC_ROWS, SEED), sizes)
    private, public = drawn(table, everyone, PUBLIC_ROWS, HELD_OUT["adult_drawn"])
    write(given.out, "adult_drawn", private, public, sizes)
    races = table.groupby("race")["race"].transform("size").to_numpy()
    by_race = drawn(table, 1.0 / races, PUBLIC_ROWS, HELD_OUT["adult_by_race"])
    write(given.out, "adult_by_race", *by_race, sizes)
    wrong = shuffled(public, sizes, HELD_OUT["adult_drawn_shuffled"])
    write(given.out, "adult_drawn_shuffled", private, wrong, sizes)
    write(given.out, "adult_drawn_uniform", private, uniform(public, sizes, NOISE_SEED), sizes)


if __name__ == "__main__":
    main()

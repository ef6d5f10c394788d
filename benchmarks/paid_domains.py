"""The price of not knowing a domain: errors of releases that buy it, on the domain that is known.

    python -m benchmarks.paid_domains --data data --out docs/measurements/paid_domains.csv

Tables are integer-coded. A column of more than 24 values is a number whose bins are bought, from
all integers; any other is a category, whose values are selected. Rows of each release are compared
with the private ones over the declared domain, by the mean L1 error of all three-way marginals.
Noise is seeded.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import jam_dagster as jam
from jam_dagster.evaluation.workload_error import table_errors
from jam_dagster.tables import Domain, Workload, encode

TABLES = ("titanic", "adult", "nist_taxi", "salary")
COLUMNS = ("table", "epsilon", "share", "seed", "mechanism", "error", "cells", "bins", "other")
NUMBERS_FROM = 24


def asked(domain: Domain, share: float) -> dict[str, Any]:
    """Return the domain file that asks for all columns of a declared domain."""
    paid: dict[str, Any] = {"edges": "paid", "integer": True, "bins": 32}
    entries = {
        name: paid if size > NUMBERS_FROM else {"values": "paid"}
        for name, size in domain.sizes.items()
    }
    return {"attributes": entries, "share": share}


def read(data: Path, name: str) -> tuple[pd.DataFrame, Domain]:
    """Return a whole table and its domain; salary's is that of the two parts of its split."""
    folder = data / "whole" / name
    if folder.exists():
        table = pd.read_csv(folder / "table.csv")
    else:
        folder = data / "paper" / name
        table = pd.concat([pd.read_csv(folder / part) for part in ("priv.csv", "pub.csv")])
    domain = Domain.load(folder / "domain.json")
    return table[list(domain.names)].reset_index(drop=True), domain


def run(
    table: pd.DataFrame, domain: Domain, epsilon: float, share: float, seed: int, mechanism: str
) -> dict[str, Any]:
    """Return the row of one release; share 0 declares the domain."""
    made = jam.synthesize(
        table.astype(str) if share else table,
        domain=domain if not share else asked(domain, share),
        epsilon=epsilon,
        delta=1e-9,
        neighbours="add_remove",
        mechanism=mechanism,
        noise="numpy",
        seed=seed,
        evaluation_mode="off",
    )
    used = made.model.domain
    rows = made.table
    other = 0.0
    if share:
        # A value that was not selected counts as the first one, which is as wrong as any.
        other = float((rows == "other").mean().mean())
        rows = rows.replace("other", "0").apply(pd.to_numeric).fillna(0).astype(int)
    inside = {name: rows[name].clip(0, size - 1) for name, size in domain.sizes.items()}
    known = encode(pd.DataFrame(inside), domain, private=False)
    workload = Workload.all_k_way(domain, 3)
    (error,) = table_errors(encode(table, domain, private=True), [known], workload)
    binned = [one.size - one.nullable for one in used.attributes if one.binned]
    return {
        "error": round(error.mean, 5),
        "cells": sum(used.shape),
        "bins": sum(binned),
        "other": round(other, 5),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.0, 0.05, 0.1, 0.2])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--mechanism", default="mst")
    given = parser.parse_args(arguments)
    held = list(csv.DictReader(given.out.open())) if given.out.exists() else []
    done = {tuple(row[key] for key in COLUMNS[:5]) for row in held}
    for name in given.tables:
        table, domain = read(given.data, name)
        for seed in range(given.seeds):
            for epsilon in given.epsilons:
                for share in given.shares:
                    key = (name, str(epsilon), str(share), str(seed), given.mechanism)
                    if key in done:
                        continue
                    row = dict(zip(COLUMNS, key, strict=False))
                    row |= run(table, domain, epsilon, share, seed, given.mechanism)
                    held.append(row)
                    print(row, file=sys.stderr, flush=True)
                    with given.out.open("w", newline="") as file:
                        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                        writer.writeheader()
                        writer.writerows(held)


if __name__ == "__main__":
    main()

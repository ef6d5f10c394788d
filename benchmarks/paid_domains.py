"""The price of not knowing a domain: errors of releases that buy it, on the domain that is known.

    python -m benchmarks.paid_domains --data data --out docs/measurements/paid_domains.csv
    python -m benchmarks.paid_domains --data data --out ... --select --peer peers/bin/python
    python -m benchmarks.paid_domains --data data --out ... --bounds

Tables are integer-coded. A column of more than 24 values is a number whose bins are bought, from
all integers, but for `CATEGORIES`; any other is a category, whose values are selected. Rows of each
release are compared with the private ones over the declared domain, by the mean L1 error of all
three-way marginals. Noise is seeded.

With ``--select`` nothing but values is bought, with exact noise, each column's with an equal part
of epsilon or rho, and of delta: by jam-dagster, by OpenDP's thresholds as its own maps and
conversion price them, and by smartnoise-sql's `GROUP BY` in an environment of its own. Rows are
means of `DRAWS` draws: the values that are published (`cells`), and the share of records that have
another one (`other`).

With ``--bounds`` the bins of simulated columns are bought, of `PEOPLE` ages each among all
integers: `other` is the share of columns with a bound beyond every age that there can be.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import jam_dagster as jam
from jam_dagster.evaluation.workload_error import table_errors
from jam_dagster.privacy import Budget
from jam_dagster.privacy.noise.exact import ExactNoise
from jam_dagster.privacy.noise.seeded import discrete_gaussian
from jam_dagster.tables import Domain, Workload, encode
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.bought import Draw, PaidCounts

TABLES = ("titanic", "adult", "nist_taxi", "salary")
COLUMNS = ("table", "epsilon", "share", "seed", "mechanism", "error", "cells", "bins", "other")
NUMBERS_FROM = 24
CATEGORIES = ("organization-name", "first-name")
"""Columns that are categories, however many values they have."""
DELTA = 1e-9
DRAWS = 10
SIMULATED, PEOPLE = 1500, 3000
SCALES = (2.0, 3.0, 5.0)
"""Noise of simulated columns: of 1,500 each."""


def asked(domain: Domain, share: float) -> dict[str, Any]:
    """Return the domain file that asks for all columns of a declared domain."""
    paid: dict[str, Any] = {"edges": "paid", "integer": True, "bins": 32}
    entries = {
        name: paid
        if size > NUMBERS_FROM and name not in CATEGORIES
        else {"values": "paid", "at_most": size}
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
        delta=DELTA,
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


Counts = dict[str, int]
Select = Callable[[list[Counts]], list[set[str]]]
"""Returns the published values of each column, given how many records have each value."""


def by_jam_dagster(columns: list[Counts], epsilon: float) -> list[set[str]]:
    """Select as a release does whose whole rho, and half of whose delta, selects."""
    parts = len(columns)
    rho = Budget(epsilon, DELTA, DELTA / 2).rho / parts
    published = []
    for counts in columns:
        exact = np.array(list(counts.values()), dtype=np.int64)
        chosen, *_ = ExactNoise().select_values(exact, 1.0, rho, DELTA / 2 / parts, 1, 1, "select")
        published.append({list(counts)[index] for index in chosen.tolist()})
    return published


def by_opendp(columns: list[Counts], epsilon: float, *, gaussian: bool) -> list[set[str]]:
    """Select by OpenDP's thresholds alone: Gaussian noise under zCDP, or Laplace noise."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    parts = len(columns)
    space = dp.map_domain(dp.atom_domain(T="i64"), dp.atom_domain(T="i64"))
    if gaussian:
        metric = dp.l02inf_distance(dp.absolute_distance(T=float))
        kind = "Approximate<ZeroConcentratedDivergence>"
        make = partial(dp.m.make_gaussian_threshold, space, metric, MO=kind)

        def spent(scale: float) -> float:
            # Of all columns together: noise of one whose rho is that of them all.
            one = dp.c.make_zCDP_to_approxDP(make(scale / parts**0.5, 10**6))
            return float(one.map((1, 1.0, 1.0))[0].epsilon(DELTA / 2))

        scale = dp.binary_search(lambda one: spent(one) <= epsilon, bounds=(0.2 * parts**0.5, 1e5))
        moved: Any = (1, 1.0, 1.0)
        delta = DELTA / 2 / parts
    else:
        metric = dp.l01inf_distance(dp.absolute_distance(T="i64"))
        make = partial(dp.m.make_laplace_threshold, space, metric)
        scale, moved, delta = parts / epsilon, (1, 1, 1), DELTA / parts
    least = dp.binary_search(lambda one: make(scale, one).map(moved)[1] <= delta, bounds=(2, 10**6))
    select, found = make(scale, least), []
    for counts in columns:
        names = list(counts)
        exact = {index: counts[name] for index, name in enumerate(names)}
        found.append({names[index] for index in select(exact)})
    return found


_SMARTNOISE = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import pandas as pd, snsql
columns, epsilon, delta, draws = json.load(sys.stdin)
found = []
for counts in columns:
    rows = pd.DataFrame({"v": [name for name, times in counts.items() for _ in range(times)]})
    described = {"row_privacy": True, "rows": len(rows), "v": {"type": "string"}}
    privacy = snsql.Privacy(epsilon=epsilon / len(columns), delta=delta / len(columns))
    made = []
    for _ in range(draws):
        reader = snsql.from_connection(
            rows, privacy=privacy, metadata={"": {"s": {"t": described}}}
        )
        answer = reader.execute("SELECT v, COUNT(*) AS n FROM s.t GROUP BY v")
        made.append([one[0] for one in answer[1:]])
    found.append(made)
print(json.dumps(found))
"""


def by_smartnoise(columns: list[Counts], epsilon: float, python: str) -> list[list[set[str]]]:
    """Select by smartnoise-sql, in an environment that has it: all draws at once."""
    asked = json.dumps([columns, epsilon, DELTA, DRAWS])
    done = subprocess.run(
        [python, "-c", _SMARTNOISE], input=asked, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return [[set(map(str, made[draw])) for made in found] for draw in range(DRAWS)]


def selected(columns: list[Counts], epsilon: float, how: str, peer: str) -> dict[str, Any]:
    """Return the row of the draws of one way to select."""
    ways: dict[str, Select] = {
        "jam_dagster": partial(by_jam_dagster, epsilon=epsilon),
        "opendp gaussian": partial(by_opendp, epsilon=epsilon, gaussian=True),
        "opendp laplace": partial(by_opendp, epsilon=epsilon, gaussian=False),
    }
    if how == "smartnoise-sql":
        draws = by_smartnoise(columns, epsilon, peer)
    else:
        draws = [ways[how](columns) for _ in range(DRAWS)]
    cells = [sum(map(len, published)) for published in draws]
    rest = [
        1.0 - sum(counts[name] for name in names) / sum(counts.values())
        for published in draws
        for counts, names in zip(columns, published, strict=True)
    ]
    return {
        "error": "",
        "cells": np.mean(cells).round(1),
        "bins": "",
        "other": np.mean(rest).round(5),
    }


def selections(data: Path, tables: Sequence[str]) -> list[tuple[str, list[Counts]]]:
    """Return the counts of the columns of each table, and of single columns."""
    cases = []
    for name in tables:
        table, _ = read(data, name)
        columns = {
            column: {
                str(value): int(times) for value, times in table[column].value_counts().items()
            }
            for column in table
        }
        cases.append((name, list(columns.values())))
        wide = max(columns, key=lambda column: len(columns[column]))
        cases.append((f"{name}: {wide}", [columns[wide]]))
    return cases


def bounds(sigma: float) -> dict[str, Any]:
    """Return the row of simulated columns whose bins are bought with noise of a scale."""
    rng = np.random.default_rng(0)
    domain = Domain.from_dict({"attributes": {"age": {"edges": "paid", "integer": True}}})
    far, bins = 0, 0

    def edges_of(age: Attribute) -> tuple[float, ...]:
        return age.edges if isinstance(age, BinnedAttribute) else ()

    for _ in range(SIMULATED):
        ages = np.clip(rng.normal(45.0, 18.0, PEOPLE), 0, 99).round()

        def counted(draws: Sequence[Draw], ages: Any = ages) -> list[PaidCounts]:
            (draw,) = draws
            size, edges = draw.attribute.size, edges_of(draw.attribute)
            counts = np.bincount(np.searchsorted(edges, ages, side="right") - 1, minlength=size)
            noisy = counts + discrete_gaussian(rng, sigma, size)
            values = tuple(noisy.tolist())
            return [PaidCounts(draw.step, "age", size, 1.0, 1.0, sigma, values)]

        edges = edges_of(domain.buy(counted).attribute("age"))
        far += edges[0] < 0.0 or edges[-1] > 100.0
        bins += len(edges) - 1
    return {"error": "", "cells": "", "bins": bins / SIMULATED, "other": far / SIMULATED}


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
    parser.add_argument("--select", action="store_true", help="compare selections of values")
    parser.add_argument("--bounds", action="store_true", help="simulate columns")
    parser.add_argument(
        "--peer", default="", help="the Python of an environment with smartnoise-sql"
    )
    given = parser.parse_args(arguments)
    held = list(csv.DictReader(given.out.open())) if given.out.exists() else []
    done = {tuple(row[key] for key in COLUMNS[:5]) for row in held}

    def keep(key: tuple[str, ...], row: dict[str, Any]) -> None:
        held.append(dict(zip(COLUMNS, key, strict=False)) | row)
        print(held[-1], file=sys.stderr, flush=True)
        with given.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(held)

    if given.bounds:
        for sigma in SCALES:
            key = (f"ages, noise {sigma:g}", "", "1.0", str(SIMULATED), "bounds")
            if key not in done:
                keep(key, bounds(sigma))
        return
    if given.select:
        ways = ("jam_dagster", "opendp gaussian", "opendp laplace", "smartnoise-sql")
        for name, columns in selections(given.data, given.tables):
            for epsilon in given.epsilons:
                for how in ways if given.peer else ways[:-1]:
                    key = (name, str(epsilon), "1.0", str(DRAWS), f"selection: {how}")
                    if key not in done:
                        keep(key, selected(columns, epsilon, how, given.peer))
        return
    for name in given.tables:
        table, domain = read(given.data, name)
        for seed in range(given.seeds):
            for epsilon in given.epsilons:
                for share in given.shares:
                    key = (name, str(epsilon), str(share), str(seed), given.mechanism)
                    if key in done:
                        continue
                    keep(key, run(table, domain, epsilon, share, seed, given.mechanism))


if __name__ == "__main__":
    main()

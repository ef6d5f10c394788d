"""Small releases of each mechanism that were made elsewhere, which every machine verifies.

`python -m tests.certificates.elsewhere` makes all of them again, with the arithmetic of an older
processor (`tests/processors.py`): after a change of what digests cover, or of a stored format.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from jam_dagster.mechanisms import MECHANISMS, mechanism_class
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.privacy import Ledger
from tests.budgets import PUBLIC_N
from tests.cli_bench import run_cli, write_tables
from tests.processors import PROCESSORS

RELEASES = Path(__file__).parent / "elsewhere"
"""A file for each mechanism: the release's folder, its ledger and its public table."""

KEPT = ("out", "ledger.db", "pub.csv")

SMALL = {"rounds": 5, "iterations": 50, "components": 20, "pretraining_iterations": 50}
"""Settings of a small run, for mechanisms that have them."""


def names() -> list[str]:
    """Return the mechanisms that make a table, in an order that is always the same."""
    return sorted(name for name in MECHANISMS if mechanism_class(name).samples)


def make(name: str) -> None:
    """Make the release of a mechanism in the working directory."""
    write_tables()
    Ledger("ledger.db").grant("people", epsilon=20.0, delta=1e-9, policy=PUBLIC_N)
    settings = settings_of(mechanism_class(name))
    small = [f"{key}={value}" for key, value in SMALL.items() if key in settings]
    public = ("--public", "pub.csv") if mechanism_class(name).takes_public != "cannot" else ()
    made = run_cli(
        *("synthesize", "--private", "priv.csv", *public, "--domain", "domain.json"),
        *("--mechanism", name, *(part for one in small for part in ("--setting", one))),
        *(
            "--epsilon",
            "4",
            "--degree",
            "2",
            "--evaluation-mode",
            "private",
            "--no-checks",
            "--no-report",
        ),
        *("--ledger", "ledger.db", "--dataset", "people", "--out", "out"),
    )
    if made.exit_code:
        raise SystemExit(f"{name}: {made.output}")


def keep(name: str, folder: Path) -> None:
    """Store what a reader of the release has, in one file."""
    RELEASES.mkdir(exist_ok=True)
    place = RELEASES / f"{name}.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for path in files_of(folder):
            file.write(path, path.relative_to(folder))


def files_of(folder: Path) -> Iterator[Path]:
    """Yield the files that are kept, in their order."""
    for part in KEPT:
        path = folder / part
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (one for one in found if one.is_file() and "restricted" not in one.parts)


def main(options: Sequence[str]) -> None:
    """Make the releases named, or all, as the oldest of the emulated processors."""
    if "--here" not in options:
        PROCESSORS[0].run("-m", "tests.certificates.elsewhere", "--here", *options, check=True)
        return
    for name in [one for one in options if one != "--here"] or names():
        with TemporaryDirectory() as folder:
            os.chdir(folder)
            make(name)
            keep(name, Path(folder))
            os.chdir(RELEASES)
        print(name, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])

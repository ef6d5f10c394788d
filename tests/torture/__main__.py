"""``python -m tests.torture``: kill runs for as long as it takes, and say what came of it."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from tests.torture.campaign import Campaign, Tormented
from tests.torture.faults import FAULTS, verdict
from tests.torture.victims import ExactRelease, SeededRelease, Victim

KINDS: dict[str, type[Victim]] = {"release": ExactRelease, "research": SeededRelease}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--sqlite", type=int, default=200, help="kills over SQLite")
    parser.add_argument("--faults", action="store_true", help="plant faults, say what is noticed")
    parser.add_argument("--seed", type=int, default=0, help="of the points and times")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        if given.faults:
            plant_faults(Path(folder))
        else:
            torture(Path(folder), "SQLite", given.sqlite, given.seed)


def plant_faults(home: Path) -> None:
    """Print what the judge says of each fault, as JSON."""
    verdicts = enumerate(FAULTS.items())
    print(json.dumps({name: verdict(fault, home / f"{n}") for n, (name, fault) in verdicts}))


def torture(home: Path, backend: str, kills: int, seed: int) -> Tormented:
    """Share the kills among the kinds of victims; print a line for each and one for all."""
    total, started = Tormented(), time.monotonic()
    for number, (kind, made) in enumerate(KINDS.items()):
        share = (kills + number) // len(KINDS)
        told = Campaign(lambda place, made=made: made(home=place), home / kind, seed).torment(share)
        print(f"{backend}, {kind}: {told.line()}", flush=True)
        total += told
    seconds = time.monotonic() - started
    print(f"{backend}, all: {total.line()}, {seconds:.0f} s", flush=True)
    return total


if __name__ == "__main__":
    main()

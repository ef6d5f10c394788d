"""`python -m tests.mutants [NAME ...]`: every mutant, or those named; fails if one is missed."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.mutants.changes import StaleMutantError
from tests.mutants.planting import Mutant, catalog, fault_without_a_mutant, verdict

WORKERS = 2


def judged(mutant: Mutant) -> tuple[str, str]:
    started = time.monotonic()
    try:
        found = verdict(mutant)
    except StaleMutantError as error:
        return "STALE", f"{mutant.name}: {error}"
    state = "noticed" if found.noticed else "MISSED"
    line = f"{state:<8}{mutant.name}: {mutant.bug} ({time.monotonic() - started:.0f} s)"
    return state, f"{line}\n{'':8}{found.reason}" if found.noticed else f"{line}\n{found.said}"


def main(names: Sequence[str]) -> int:
    known = {mutant.name: mutant for mutant in catalog()}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no mutant is called {unknown[0]!r}; there are {', '.join(known)}")  # noqa: T201
        return 2
    chosen = [known[name] for name in names or known]
    # A test that fails anyway would notice everything.
    if fault := fault_without_a_mutant({one.tests for one in chosen}):
        print(fault)  # noqa: T201
        return 1
    states = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for state, line in pool.map(judged, chosen):
            states.append(state)
            print(line, flush=True)  # noqa: T201
    noticed = states.count("noticed")
    print(f"{noticed} of {len(states)} mutants were noticed")  # noqa: T201
    return 0 if noticed == len(states) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

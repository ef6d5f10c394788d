"""What cells for unreadable values cost: errors with `unreadable: apart` beside `missing`.

    JAM_DATA=... python -m benchmarks.unreadable_apart --epsilon 1 --seeds 5

On the demo's health survey and on UCI Adult as published, each with the domain that `domain draft`
makes of the public table. No cell of them is unreadable, so whatever differs is the noise of the
cells, which are empty. Errors count an unreadable value as a missing one, so those of all domains
are of the same quantity. Noise is seeded and nothing is charged. A row for every table, mechanism
and kind of attributes that have the cell: the mean error over all 3-way marginals of the synthetic
table, the mean difference from that without any such cell by the same seeds, and its standard
error. Rows of November 2026 are in `docs/measurements/unreadable_apart.csv`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jam_dagster.tables import Domain, encode
from jam_dagster.tables.drafting.draft import draft_domain
from jam_dagster.tables.sources.health_survey import health_survey
from jam_dagster.trials import Run
from jam_dagster.trials.splits import Split
from jam_dagster.trials.trial import run_trial

KINDS = ("none", "numbers", "categories", "all")
"""Which attributes have a cell for unreadable values, of those whose values may be unreadable."""

_ADULT_PUBLIC = 3000


def tables_of(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a private and a public table."""
    if name == "health_survey":
        return health_survey()
    path = Path(os.environ["JAM_DATA"]) / "adult_raw" / "adult.csv"
    whole = pd.read_csv(path, skipinitialspace=True)
    order = np.random.default_rng(0).permutation(len(whole))
    return whole.iloc[order[_ADULT_PUBLIC:]], whole.iloc[order[:_ADULT_PUBLIC]]


def with_cells(content: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a domain file in which attributes of a kind have cells for unreadable values."""
    attributes = {}
    for name, entry in content["attributes"].items():
        listed = not {"values", "prefix"}.isdisjoint(entry)
        free = "unreadable" in entry and "other" not in entry
        wanted = kind == "all" or kind == ("categories" if listed else "numbers")
        chosen = {"unreadable": "apart" if wanted else "missing"}
        attributes[name] = entry | (chosen if free else {})
    return content | {"attributes": attributes}


def rows(arguments: argparse.Namespace) -> Iterator[str]:
    """Make the runs, and yield the lines of the table."""
    yield "| table | n | mechanism | epsilon | apart | cells more | error | difference | s.e. |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name in arguments.table:
        private, public = tables_of(name)
        private = private[: arguments.records]
        content = draft_domain(public).to_dict()
        domains = {kind: Domain.from_dict(with_cells(content, kind)) for kind in arguments.apart}
        splits = {
            kind: Split(name, encode(private, one), encode(public, one, private=False))
            for kind, one in domains.items()
        }
        fewest = sum(domains["none"].shape)
        for mechanism in arguments.mechanism:
            runs = [
                Run(name, mechanism, epsilon=arguments.epsilon, seed=seed)
                for seed in range(arguments.seeds)
            ]
            errors = {
                kind: np.array([run_trial(run, split)["error_mean"] for run in runs])
                for kind, split in splits.items()
            }
            for kind, found in errors.items():
                apart = found - errors["none"]
                spread = apart.std(ddof=1) / len(apart) ** 0.5
                yield (
                    f"| {name} | {len(private)} | {mechanism} | {arguments.epsilon:g} | {kind} |"
                    f" {sum(domains[kind].shape) - fewest} | {found.mean():.4f} |"
                    f" {apart.mean():+.4f} | {spread:.4f} |"
                )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table", nargs="+", default=["health_survey", "adult"])
    parser.add_argument("--mechanism", nargs="+", default=["tilt", "aim", "jam_pgm"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--apart", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--records", type=int, default=None)
    parser.add_argument("--seeds", type=int, default=5)
    for line in rows(parser.parse_args(arguments)):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""What declared impossible combinations are worth: the errors with them over those without.

    JAM_DATA=... python -m benchmarks.structural_zeros --mechanism aim --epsilon 1 --seeds 3

On the paper's splits of Adult, where three relations hold by what attributes mean: education and
education-num are two names of one thing, only the married are a husband or a wife, and nobody
reports both a capital gain and a capital loss. Which names belong together is read off the public
table. Noise is seeded and nothing is charged. A row for every mechanism and epsilon: the mean error
over all 3-way marginals of the synthetic table without and with the combinations, and the ratio.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.splits import Split, load_split
from jam_dagster.errors import InputError
from jam_dagster.tables import Domain, EncodedTable, ImpossibleCombination
from jam_dagster.trials import Run
from jam_dagster.trials import splits as trials
from jam_dagster.trials.trial import run_trial

RELATIONS = {
    "one name of the other": ("education", "education-num"),
    "husbands and wives are married": ("marital-status", "relationship"),
    "no gain with a loss": ("capital-gain", "capital-loss"),
}


def combinations(split: Split) -> tuple[ImpossibleCombination, ...]:
    """Return what is impossible in Adult, one combination a row of a pair's table.

    Codes are those of the published tables: relationship 0 and 2 are wife and husband, which only
    marital-status 0 and 6 can be (married, with a civilian spouse or one in the armed forces); 0 is
    the bin of no gain, and of no loss.
    """
    named, numbered = RELATIONS["one name of the other"]
    empty = split.public.marginal((named, numbered)) == 0
    found = [
        ImpossibleCombination((named, numbered), ((code,), tuple(np.flatnonzero(row).tolist())))
        for code, row in enumerate(empty)
    ]
    spouses = ImpossibleCombination(
        RELATIONS["husbands and wives are married"], ((1, 2, 3, 4, 5), (0, 2))
    )
    gains = RELATIONS["no gain with a loss"]
    sizes = [range(1, split.domain.size((name,))) for name in gains]
    both = ImpossibleCombination(gains, (tuple(sizes[0]), tuple(sizes[1])))
    return (*found, spouses, both)


def constrained(split: Split) -> Split:
    """Return the split over a domain that declares what is impossible.

    Raises
    ------
    InputError
        If a record of a table says otherwise: then the tables are not those this is about.
    """
    domain = Domain(split.domain.attributes, combinations(split))
    for clique, impossible in domain.impossible_masks().items():
        for table in (split.private, split.public):
            if table.marginal(clique)[impossible].any():
                raise InputError(
                    f"{split.name} has records that are impossible by {' and '.join(clique)}: this "
                    "benchmark is about the published splits of Adult."
                )
    tables = (EncodedTable(domain, one.columns) for one in (split.private, split.public))
    return Split(split.name, *tables)


def error_of(split: Split, mechanism: str, epsilon: float, delta: float, seed: int) -> float:
    """Return the mean error of a synthetic table over all 3-way marginals."""
    run = Run(split.name, mechanism, epsilon=epsilon, seed=seed, delta=delta)
    tables = trials.Split(split.name, split.private, split.public)
    return float(run_trial(run, tables)["error_mean"])


def rows(arguments: argparse.Namespace) -> Iterator[str]:
    """Make the runs, and yield the lines of the table."""
    yield "| split | mechanism | epsilon | without | with | ratio | its standard error |"
    yield "|---|---|---|---|---|---|---|"
    for name in arguments.split:
        free = load_split(name)
        tied = constrained(free)
        for mechanism in arguments.mechanism:
            for epsilon in arguments.epsilon:
                without, under = (
                    np.array(
                        [
                            error_of(split, mechanism, epsilon, arguments.delta, seed)
                            for seed in range(arguments.seeds)
                        ]
                    )
                    for split in (free, tied)
                )
                ratio = under.mean() / without.mean()
                relative = [a.std(ddof=1) / a.mean() / len(a) ** 0.5 for a in (without, under)]
                yield (
                    f"| {name} | {mechanism} | {epsilon:g} | {without.mean():.4f} | "
                    f"{under.mean():.4f} | {ratio:.3f} | {ratio * np.hypot(*relative):.3f} |"
                )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--split", nargs="+", default=["adult_pub025_01"])
    parser.add_argument("--mechanism", nargs="+", default=["aim", "jam_pgm"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--seeds", type=int, default=3)
    for line in rows(parser.parse_args(arguments)):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Households and their persons: how far a release of two tables is from the true ones.

    python -m benchmarks.two_tables --households 3000 30000 --seeds 5
    python -m benchmarks.two_tables --households 300000 --persons 3 --mechanism aim --seeds 1

The households are invented, so the truth is known: a region, up to four persons, and jobs that a
household's persons share more often than by chance. Noise is seeded, epsilon is 1 and nothing is
charged. Each line has three distances, half the L1 distance of shares: of the number of persons a
household, of region and job over persons, and of the jobs of two persons of a household; then the
persons a household over the true ones. Besides the mechanisms there are lines to compare with:

- alone: the table of persons alone, with the household as privacy unit and four rows each; it has
  no pairs, so persons are drawn independently.
- independent: a release of two tables whose persons changed places within their region.
- a sample: as many households drawn from the true ones with replacement; no method does better than
  about this.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from jam_dagster.mechanisms import make_mechanism
from jam_dagster.mechanisms.loops.rows import sample_rows, with_search
from jam_dagster.privacy import Budget, Draws, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.sensitivity import Neighbours
from jam_dagster.tables import Domain, PrivacyUnit, Workload, encode
from jam_dagster.tables.codes.roots import decode_two, encode_roots, roots_with_children
from jam_dagster.tables.domain.children import Link

MOST, JOBS = 4, 10
LINK = Link("persons", "household", MOST)
ROOTS, PERSONS = Domain.from_sizes({"region": 2}), Domain.from_sizes({"job": JOBS})
DOMAIN = ROOTS.with_children(LINK, PERSONS)
KEY = bytes(32)
MECHANISMS = ("aim", "mwem_pgm", "mst", "jam_pgm", "tilt")
NEEDS_PUBLIC = ("jam_pgm", "tilt")
Tables = tuple[pd.DataFrame, pd.DataFrame]


def households(number: int, seed: int, copied: float = 0.6, persons: float = 1.96) -> Tables:
    """Return households and their persons, a share of whom has the first draw of the household.

    `persons` is their mean number a household.
    """
    rng = np.random.default_rng(seed)
    region = (rng.random(number) < 0.3).astype(int)
    sizes = _with_mean(np.array([[0.1, 0.2, 0.3, 0.2, 0.2], [0.3, 0.3, 0.2, 0.1, 0.1]]), persons)
    size = (rng.random(number)[:, None] > sizes.cumsum(axis=1)[region, :-1]).sum(axis=1)
    jobs = np.array([0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.04, 0.03, 0.02, 0.01])
    upto = np.array([jobs.cumsum(), jobs[::-1].cumsum()])[:, :-1]

    def drawn(of: np.ndarray) -> np.ndarray:
        job: np.ndarray = (rng.random(len(of))[:, None] > upto[of]).sum(axis=1)
        return job

    own = np.repeat(np.arange(number), size)
    first, other = drawn(region)[own], drawn(region[own])
    job = np.where(rng.random(len(own)) < copied, first, other)
    people = pd.DataFrame({"household": own, "job": job})
    return pd.DataFrame({"household": np.arange(number), "region": region}), people


def _with_mean(sizes: np.ndarray, persons: float) -> np.ndarray:
    """Return the sizes of households by region, tilted so that the mean of all is `persons`."""
    low, high, number = -9.0, 9.0, np.arange(MOST + 1)
    tilted: np.ndarray = sizes
    for _ in range(50):
        middle = (low + high) / 2
        tilted = sizes * np.exp(middle * number)
        tilted /= tilted.sum(axis=1, keepdims=True)
        low, high = (low, middle) if [0.7, 0.3] @ tilted @ number > persons else (middle, high)
    return tilted


def region_of(tables: Tables) -> np.ndarray:
    """Return the region of each person: that of the household, unless the person has one."""
    roots, persons = tables
    if "region" in persons:
        return persons["region"].to_numpy(int)
    return roots.set_index("household")["region"].reindex(persons["household"]).to_numpy(int)


def shares(tables: Tables) -> tuple[list[np.ndarray], float]:
    """Return the three distributions that are compared, and the persons a household."""
    roots, persons = tables
    number = persons.groupby("household").size().reindex(roots["household"], fill_value=0)
    job, region = persons["job"].to_numpy(int), region_of(tables)
    cells = np.bincount(region * JOBS + job, minlength=2 * JOBS)
    # Each household with two persons or more counts once.
    every = persons.assign(place=np.arange(len(persons)), job=job)
    pairs = every.merge(every, on="household")
    pairs = pairs[pairs["place_x"] != pairs["place_y"]]
    weight = 1 / pairs.groupby("household")["place_x"].transform("size").to_numpy()
    both = pairs["job_x"].to_numpy() * JOBS + pairs["job_y"].to_numpy()
    together = np.bincount(both, weights=weight, minlength=JOBS**2)
    fan_out = np.bincount(number, minlength=MOST + 1)
    return [one / one.sum() for one in (fan_out, cells, together)], len(persons) / len(roots)


def distances(truth: Tables, made: Tables) -> list[float]:
    """Return the three distances, and the ratio of persons a household."""
    (ours, persons), (theirs, true) = shares(made), shares(truth)
    found = [0.5 * float(np.abs(a - b).sum()) for a, b in zip(ours, theirs, strict=True)]
    return [*found, persons / true]


def released(truth: Tables, public: Tables | None, mechanism: str, rho: float, seed: int) -> Tables:
    """Return two synthetic tables."""
    private = encode_roots([truth[0]], [truth[1]], DOMAIN, KEY)
    known = None if public is None else encode(roots_with_children(*public, LINK), DOMAIN)
    noise = Draws(SeededNoise(seed), UnledgeredAccount(rho), neighbours=Neighbours("add_remove"))
    run = make_mechanism(mechanism).run(private, known, Workload.all_k_way(DOMAIN, 2), noise)
    rng = np.random.default_rng(seed)
    transcript = with_search(run.transcript, {"degree": 2})
    return decode_two(sample_rows(run.model, transcript, rng), rng)


def alone(truth: Tables, rho: float, seed: int) -> Tables:
    """Return synthetic persons of a release of their table alone, in true households."""
    roots, persons = truth
    joined = persons.merge(roots, on="household")
    limited = PrivacyUnit("household", MOST).limit(joined, KEY)
    domain = Domain((*ROOTS.attributes, *PERSONS.attributes))
    account = UnledgeredAccount(rho)
    noise = Draws(SeededNoise(seed), account, neighbours=Neighbours("add_remove", MOST))
    workload = Workload.all_k_way(domain, 2)
    run = make_mechanism("aim").run(encode(limited, domain), None, workload, noise)
    rng = np.random.default_rng(seed)
    codes = sample_rows(run.model, run.transcript, rng, len(persons))
    table = pd.DataFrame({name: codes.column(name) for name in domain.names})
    own = np.random.default_rng(seed).permutation(persons["household"].to_numpy())
    return roots, table.astype(int).assign(household=own)


def independent(truth: Tables, rho: float, seed: int) -> Tables:
    """Return synthetic tables whose persons changed places within their region."""
    tables = released(truth, None, "aim", rho, seed)
    roots, persons = tables
    rng = np.random.default_rng(seed)
    region, job = region_of(tables), persons["job"].to_numpy().copy()
    for one in np.unique(region):
        job[region == one] = rng.permutation(job[region == one])
    return roots, persons.assign(job=job)


def a_sample(truth: Tables, seed: int) -> Tables:
    """Return households drawn from the true ones with replacement, with their persons."""
    roots, persons = truth
    chosen = np.random.default_rng(seed).integers(0, len(roots), len(roots))
    new = pd.DataFrame(
        {"household": roots["household"].to_numpy()[chosen], "new": np.arange(len(chosen))}
    )
    made = new.merge(persons, on="household").drop(columns="household")
    drawn = pd.DataFrame(
        {"household": np.arange(len(chosen)), "region": roots["region"].to_numpy()[chosen]}
    )
    return drawn, made.rename(columns={"new": "household"})


def unchanged(tables: Tables, seed: int) -> Tables:
    """Return tables as they are."""
    return tables


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--households", type=int, nargs="+", default=[3_000, 30_000])
    parser.add_argument(
        "--public", type=int, default=1_000, help="public households, of other jobs"
    )
    parser.add_argument("--persons", type=float, default=1.96, help="mean number a household")
    parser.add_argument("--mechanism", action="append", help="default: " + ", ".join(MECHANISMS))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args(arguments)
    rho = Budget(asked.epsilon, 1e-9).rho
    # Their persons have a household's job less often.
    public = households(asked.public, 7, copied=0.4)
    print("households line            persons region,job siblings  ratio  CPU s")
    for number in asked.households:
        truth = households(number, 1, persons=asked.persons)
        lines: dict[str, Callable[[int], Tables]] = {
            name: partial(released, truth, public if name in NEEDS_PUBLIC else None, name, rho)
            for name in asked.mechanism or MECHANISMS
        }
        lines["alone"] = partial(alone, truth, rho)
        lines["independent"] = partial(independent, truth, rho)
        lines["a sample"] = partial(a_sample, truth)
        lines["public"] = partial(unchanged, public)
        for name, made in lines.items():
            begun = time.process_time()
            found = np.mean([distances(truth, made(seed)) for seed in range(asked.seeds)], axis=0)
            took = (time.process_time() - begun) / asked.seeds
            numbers = " ".join(
                f"{one:>{width}.3f}" for one, width in zip(found, (8, 10, 8, 6), strict=True)
            )
            print(f"{number:>10,} {name:<14} {numbers} {took:>6.1f}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Pre-training on a public table: what GEM^Pub begins with."""

from __future__ import annotations

import numpy as np

from jam_dagster.models.mixture.training import MixtureTrainer, Target
from jam_dagster.tables import Clique, PublicTables, Workload, marginal_blocks

PUBLIC_CELLS = 2**25
"""128 MiB of fractions: of more public marginals than have so many cells, some are left out."""

BATCH = 16
"""Marginals a step."""

EPOCH = 50
"""Steps between two looks at the loss."""

SLOWEST = 1 / 8
"""Smallest part of the learning rate: training ends if a halving goes below it."""


def public_cliques(public: PublicTables, degree: int) -> dict[str, list[Clique]]:
    """Return the marginals that are trained on: all of so many attributes that a table has.

    They follow from the domains, so that a transcript is enough to train again. If they have more
    than `PUBLIC_CELLS` cells, the largest are left out.
    """
    source: dict[Clique, str] = {}
    for name, table in public.tables.items():
        shared = public.domain.project(table.domain.names)
        for clique in Workload.all_k_way(shared, min(degree, len(shared.names))).cliques:
            source.setdefault(clique, name)
    kept: set[Clique] = set()
    held = 0
    for clique in sorted(source, key=public.domain.size):
        held += public.domain.size(clique)
        if held > PUBLIC_CELLS and kept:
            break
        kept.add(clique)
    return {
        name: [clique for clique, where in source.items() if where == name and clique in kept]
        for name in public.tables
    }


def pretrain(
    trainer: MixtureTrainer,
    public: PublicTables,
    *,
    degree: int,
    iterations: int,
    learning_rate: float,
    tolerance: float,
    seed: int,
) -> int:
    """Train on the marginals of public tables until that brings no more."""
    targets = []
    for name, cliques in public_cliques(public, degree).items():
        table = public.tables[name]
        for block in marginal_blocks(table, cliques):
            for clique, counts in block.items():
                targets.append(Target(clique, (counts / table.records).astype(np.float32), 0.0))
    rng = np.random.default_rng(seed)
    state, rate, best = trainer.begin(), learning_rate, np.inf
    for first in range(0, iterations, EPOCH):
        steps = min(EPOCH, iterations - first)
        lost = 0.0
        for _ in range(steps):
            drawn = rng.choice(len(targets), size=min(BATCH, len(targets)), replace=False)
            loss, gradient = trainer.gradient([targets[number] for number in drawn])
            state = trainer.step(state, gradient, rate)
            lost += loss / steps
        if lost > best * (1 - tolerance):
            rate /= 2
            if rate < learning_rate * SLOWEST:
                return first + steps
        best = min(best, lost)
    return iterations

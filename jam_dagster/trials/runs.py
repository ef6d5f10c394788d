"""One run of a benchmark, with everything that determines its result."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jam_dagster.errors import InputError
from jam_dagster.mechanisms import MECHANISMS, Mechanism, make_mechanism
from jam_dagster.mechanisms.configuration import read_settings
from jam_dagster.privacy import Budget, Draws, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.ledger.release_id import canonical_digest
from jam_dagster.tables import Domain, Workload

PUBLIC_TABLE = "public_table"
PRIOR_ROWS = "public_prior_rows"
TRUE_ONE_WAYS = "true_one_ways"
BEST_MIXTURE = "best_mixture"
SAMPLING_FLOOR = "sampling_floor"
BASELINES: Mapping[str, str] = {
    PUBLIC_TABLE: "public table alone",
    PRIOR_ROWS: "public prior, which is free",
    TRUE_ONE_WAYS: "true one-way marginals, independent",
    BEST_MIXTURE: "best mixture of the public table's rows",
    SAMPLING_FLOOR: "sampling floor",
}
"""The baselines with their names in figures: the public table scaled to n, the rows of the public
prior, which a release has that spends nothing, the product of the private one-way marginals without
noise, the public table's rows with the weights of least error, and n rows drawn from the private
table."""

_SKEWED_DRAWS = 256

Settings = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Run:
    """One row of a grid, with everything that determines its result.

    Parameters
    ----------
    split
        Name of the split.
    mechanism
        A registered mechanism, or a name in `BASELINES`.
    settings
        Settings that differ from the mechanism's defaults, sorted by name. Values are read as in a
        release's file: 80, 80.0 and "80" are the same size limit.
    epsilon, delta
        The budget; epsilon is None for baselines, which cost nothing.
    seed
        Seed of the noise and of the sampling; None if nothing is random.
    degree, workload
        The marginals, of so many attributes each: ``all``, ``target NAME`` (those with that
        attribute), ``skewed`` (256 drawn with squared exponential weights of their attributes, as
        in AIM's paper), or ``random N`` (the first N in an order that is the same in every run).
    label
        Its name in figures; not part of the run's identity.
    """

    split: str
    mechanism: str
    settings: Settings = ()
    epsilon: float | None = None
    seed: int | None = None
    delta: float = 1e-9
    degree: int = 3
    label: str = ""
    workload: str = "all"

    def __post_init__(self) -> None:
        settings = dict(self.settings)
        if settings and self.mechanism in MECHANISMS:
            settings = read_settings(self.mechanism, settings)
        object.__setattr__(self, "settings", tuple(sorted(settings.items())))
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", float(self.epsilon))

    @property
    def is_baseline(self) -> bool:
        """Whether it is a baseline, without a mechanism."""
        return self.mechanism in BASELINES

    @property
    def title(self) -> str:
        """Its name in figures."""
        return self.label or BASELINES.get(self.mechanism) or self.make().titled

    def make(self) -> Mechanism:
        """Return the mechanism, or raise SpecificationError."""
        return make_mechanism(self.mechanism, **dict(self.settings))

    @property
    def rho(self) -> float:
        """The budget in rho; 0 for a baseline."""
        return 0.0 if self.epsilon is None else Budget(self.epsilon, self.delta).rho

    def draws(self) -> Draws:
        """Return seeded draws of the whole budget, which no ledger pays."""
        return Draws(SeededNoise(self.seed or 0), UnledgeredAccount(self.rho))

    def searches(self, domain: Domain, rows: int) -> bool:
        """Return whether so many sampled rows are searched for better ones."""
        return True

    def parameters(self) -> dict[str, Any]:
        """Return all settings that influence the outcome, defaults included."""
        return {} if self.is_baseline else self.make().parameters()

    def parameters_json(self) -> str:
        """Return the settings in the form of rows."""
        return json.dumps(self.parameters(), sort_keys=True)

    def marginals(self, domain: Domain) -> Workload:
        """Return the workload over a domain, or raise if that lacks attributes or marginals."""
        every = Workload.all_k_way(domain, self.degree)
        kind, _, name = self.workload.partition(" ")
        rng = np.random.default_rng(0)
        if kind == "target":
            domain.attribute(name)
            return Workload.of(domain, [one for one in every.cliques if name in one])
        if kind == "random":
            if int(name) > len(every.cliques):
                raise InputError(f"There are {len(every.cliques)} marginals, fewer than {name}.")
            order = rng.permutation(len(every.cliques))[: int(name)]
            return Workload.of(domain, [every.cliques[index] for index in order])
        if kind == "skewed":
            squares = dict(
                zip(domain.names, rng.exponential(size=len(domain.names)) ** 2, strict=True)
            )
            chances = np.array([math.prod(squares[name] for name in one) for one in every.cliques])
            # A marginal that is drawn twice has twice the weight.
            times = rng.multinomial(_SKEWED_DRAWS, chances / chances.sum())
            drawn = {one: float(n) for one, n in zip(every.cliques, times, strict=True) if n}
            return Workload.of(domain, drawn, list(drawn.values()))
        return every

    def key(self, fingerprint: str) -> str:
        """Return the run's key on the split of that fingerprint, 16 digits.

        Explicit default settings do not change the key.
        """
        names = ("split", "mechanism", "epsilon", "seed", "delta", "degree")
        identity = {name: getattr(self, name) for name in names}
        identity |= {"settings": self.parameters(), "fingerprint": fingerprint}
        if self.workload != "all":
            identity["workload"] = self.workload
        return canonical_digest(identity)[:16]

    @property
    def name(self) -> str:
        """The run's identity within its grid, without reading its tables."""
        parts = [self.split, self.mechanism]
        if self.workload != "all":
            parts.append(self.workload.replace(" ", "-"))
        if self.epsilon is not None:
            parts.append(f"epsilon-{_number(self.epsilon)}")
        if self.seed is not None:
            parts.append(f"seed-{self.seed}")
        if self.settings:
            parts.append(canonical_digest(dict(self.settings))[:8])
        return "_".join(parts)

    def __str__(self) -> str:
        parts = [self.split, self.title]
        if self.workload != "all":
            parts.append(f"{self.workload} marginals")
        parts += [f"{name} {value}" for name, value in self.settings]
        if self.epsilon is not None:
            parts.append(f"epsilon {_number(self.epsilon)}")
        if self.seed is not None:
            parts.append(f"seed {self.seed}")
        return ", ".join(parts)


def _number(value: float) -> str:
    """Return a number in few digits, or in all digits if few are ambiguous."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)

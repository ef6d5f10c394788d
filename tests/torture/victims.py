"""Releases to kill: each is a real one, of a small table, with a ledger and a folder of draws."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sqlalchemy import NullPool, create_engine, make_url

from jam_dagster.certificates import verify
from jam_dagster.common.choices import Relation
from jam_dagster.evaluation import workload_error
from jam_dagster.mechanisms import FittedModel, JamPgm, Transcript
from jam_dagster.mechanisms.loops import rows
from jam_dagster.mechanisms.loops.transcript import sampling_generator
from jam_dagster.privacy import (
    Budget,
    DirectoryStore,
    Draws,
    Ledger,
    ReleaseId,
    Reservation,
    SeededNoise,
    make_noise,
)
from jam_dagster.release import SynthesisRequest, funding, synthesize
from jam_dagster.release.engine import Progress
from jam_dagster.tables import (
    CsvSource,
    Domain,
    EncodedTable,
    Source,
    SqlSource,
    Workload,
    decode,
)
from tests.budgets import PUBLIC_N
from tests.torture.points import Points, around, install
from tests.torture.tally import TalliedNoise, Tally

SIZES = {"age": 4, "sex": 2, "job": 3, "income": 2, "town": 5, "children": 3}
ROUNDS = 4


def people(rows: int, seed: int) -> pd.DataFrame:
    """A coded table in which attributes depend on each other."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 4, rows)
    return pd.DataFrame(
        {
            "age": age,
            "sex": rng.integers(0, 2, rows),
            "job": np.minimum(age, rng.integers(0, 3, rows)),
            "income": (age + rng.integers(0, 3, rows) > 3).astype(int),
            "town": rng.integers(0, 5, rows),
            "children": np.minimum(age, rng.integers(0, 3, rows)),
        }
    )


@dataclass(frozen=True, kw_only=True)
class Victim(ABC):
    """A release that is made in `home`, in this process or in one that dies of it.

    Parameters
    ----------
    home
        A folder of its own.
    ledger_url
        The ledger; None means a file in `home`, which the release makes itself.
    """

    home: Path
    ledger_url: str | None = None
    repeatable: ClassVar[bool] = False

    def prepare(self) -> None:
        """Write the tables."""
        self.home.mkdir(parents=True)
        people(300, seed=1).to_csv(self.home / "private.csv", index=False)
        # Of another population, so that private marginals are worth their price.
        people(100, seed=2)[::-1].assign(age=0).to_csv(self.home / "public.csv", index=False)
        (self.home / "domain.json").write_text(json.dumps(SIZES))
        if self.ledger_url is not None:
            self.ledger.grant(
                self.dataset,
                epsilon=self.budget.epsilon,
                delta=self.budget.delta,
                selections=self.budget.selections or None,
                policy=PUBLIC_N,
            )

    @property
    def budget(self) -> Budget:
        return Budget(3.0, 1e-9)

    @property
    def dataset(self) -> str:
        return f"people of {self.home.name}"

    @property
    def ledger_file(self) -> Path:
        return self.home / "ledger.db"

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.ledger_url or str(self.ledger_file))

    @property
    def tally(self) -> Tally:
        return Tally(self.home / "tally.jsonl")

    @property
    def out(self) -> Path:
        """Where the release keeps its draws, its transcript and its model."""
        return self.home / "out"

    @property
    def draws(self) -> Path:
        return self.out / "draws"

    @property
    def store(self) -> DirectoryStore:
        return DirectoryStore(self.draws)

    @property
    def published(self) -> tuple[Path, ...]:
        """What is made of the model: the table, and its errors where they were measured."""
        return self.out / "synthetic.csv", self.out / "errors.json"

    @property
    def has_ledger(self) -> bool:
        return self.ledger_url is not None or self.ledger.exists

    def acknowledge(self) -> None:
        """Do what an operator does after runs that were killed: let the table be opened again."""
        if self.has_ledger and self.dataset in self.ledger.datasets():
            self.ledger.acknowledge(self.dataset, reason="killed on purpose")

    def release(self) -> Reservation | None:
        """What the ledger knows of this release."""
        if not self.has_ledger:
            return None
        found = [
            one for one in self.ledger.reservations() if one.release_id.dataset == self.dataset
        ]
        assert len(found) <= 1, "one release became several"
        return found[0] if found else None

    @abstractmethod
    def run(self, points: Points) -> None:
        """Make the release, in a process that may be changed for it."""

    def transcript(self) -> Transcript:
        return Transcript.load(self.out / "transcript")

    def lost(self) -> set[str]:
        """The draws that the release says are lost, of its mechanism and its evaluation."""
        steps = {call.step for call in self.transcript().calls if call.lost}
        errors = self.published[1]
        known = errors.exists() and json.loads(errors.read_text())["synthetic"] is not None
        return steps if known else steps | {"evaluation/means"}

    def certificate_faults(self) -> list[str]:
        """What the verification of its certificate finds wrong, where it leaves one."""
        return []

    def results(self) -> dict[str, str]:
        """What a release leaves that must never change: a digest of each part."""
        parts: dict[str, Any] = {}
        for path in sorted(self.draws.glob("*.npz")):
            with np.load(path) as stored:
                parts[path.name] = [(name, stored[name].tobytes()) for name in stored.files]
        transcript = self.transcript()
        rounds = [{**vars(one), "measurement": None} for one in transcript.rounds]
        parts["transcript"] = repr({**vars(transcript), "rounds": rounds})
        for number, measurement in enumerate(transcript.measurements):
            parts[f"measurement {number}"] = (measurement.clique, measurement.values.tobytes())
        model = FittedModel.load(self.out / "model")
        parts["model"] = [(q, table.tobytes()) for q, table in model.potentials.items()]
        for path in self.published:
            parts[path.name] = path.read_bytes() if path.exists() else b""
        return {name: hashlib.sha256(repr(p).encode()).hexdigest() for name, p in parts.items()}


@dataclass(frozen=True, kw_only=True)
class ExactRelease(Victim):
    """What `jam-dagster synthesize` makes: exact noise, and an evaluation with noise."""

    neighbours: ClassVar[Relation] = "replace_one"

    epsilon: float = 3.0
    rounds: int = ROUNDS
    alpha: float = 0.8

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, 1e-9)

    def certificate_faults(self) -> list[str]:
        return [str(one) for one in verify(self.out, ledger=self.ledger) if not one.passed]

    @property
    def private(self) -> Source:
        return CsvSource("private.csv")

    @property
    def options(self) -> dict[str, Any]:
        """Options of the release that are its own."""
        return {
            "public": CsvSource("public.csv"),
            "mechanism": "jam_pgm",
            "settings": {"rounds": self.rounds, "alpha": self.alpha},
            "degree": 2,
        }

    def run(self, points: Points) -> None:
        install(points, self.tally)
        funding.make_noise = lambda name: TalliedNoise(  # type: ignore[attr-defined]
            make_noise(name), self.tally, points.reach
        )
        os.chdir(self.home)
        synthesize(
            SynthesisRequest.of(
                private=self.private,
                domain=Path("domain.json"),
                out=Path("out"),
                epsilon=self.epsilon,
                evaluation_mode="private",
                ledger=self.ledger_url or "ledger.db",
                records_public=True,
                neighbours=self.neighbours,
                dataset=self.dataset,
                checks=False,
                report=False,
                **self.options,
            ),
            Progress(
                on_stage=lambda name: points.reach(f"stage {name}"),
                on_round=lambda done: points.reach("round: over"),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class BoughtRelease(ExactRelease):
    """A release without a public table, which buys the values of a column and the bins of one."""

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, 1e-9, 5e-10)

    @property
    def options(self) -> dict[str, Any]:
        return {"mechanism": "independent", "degree": 1}

    def prepare(self) -> None:
        super().prepare()
        attributes: dict[str, Any] = {
            name: {"values": [*range(size)]} for name, size in SIZES.items()
        }
        attributes["town"] = {"values": "paid", "at_most": 5, "public": ["0"]}
        attributes["age"] = {"edges": "paid", "integer": True, "bins": 4}
        asked = {"attributes": attributes, "share": 0.4}
        (self.home / "domain.json").write_text(json.dumps(asked))

    @property
    def domain(self) -> Domain:
        """The domain that was bought."""
        return Domain.load(self.out / "domain.yaml")

    def lost(self) -> set[str]:
        bought = self.domain.bought
        counts = () if bought is None else bought.counts
        return super().lost() | {one.step for one in counts if one.values is None}

    def results(self) -> dict[str, str]:
        return super().results() | {"domain": self.domain.digest}


@dataclass(frozen=True, kw_only=True)
class CountedRelease(ExactRelease):
    """The same of a table that PostgreSQL counts, with rows that are made in chunks."""

    warehouse: str
    # No officer vouches for the query.
    neighbours: ClassVar[Relation] = "add_remove"

    @property
    def private(self) -> Source:
        return SqlSource(self.warehouse, f'select * from "{self.dataset}"')

    @property
    def published(self) -> tuple[Path, ...]:
        return self.out / "synthetic.parquet", self.out / "errors.json"

    def prepare(self) -> None:
        super().prepare()
        url = make_url(self.warehouse).set(drivername="postgresql+psycopg")
        engine = create_engine(url, poolclass=NullPool)
        pd.read_csv(self.home / "private.csv").to_sql(self.dataset, engine, index=False)

    def run(self, points: Points) -> None:
        rows.MOST_AT_ONCE, rows.CHUNK_ROWS = 200, 100
        around(SqlSource, "counted", points, "count")
        around(rows, "decode", points, "chunk")
        super().run(points)


@dataclass(frozen=True, kw_only=True)
class SeededRelease(Victim):
    """The same with seeded noise, charged to a ledger: a run that was killed repeats its draws."""

    repeatable: ClassVar[bool] = True

    def run(self, points: Points) -> None:
        install(points, self.tally)
        ledger = self.ledger
        if self.dataset not in ledger.datasets():
            ledger.grant(
                self.dataset, epsilon=self.budget.epsilon, delta=self.budget.delta, policy=PUBLIC_N
            )
        release = ledger.open_release(
            ReleaseId(self.dataset, "research", "specification"),
            self.budget.shares(evaluation=0.05),
        )
        with ledger.claim(release.release_id):
            self._draw(release, points)

    def _draw(self, release: Reservation, points: Points) -> None:
        out, domain = self.out, Domain.load(self.home / "domain.json")
        private, public = (
            EncodedTable.from_frame(domain, pd.read_csv(self.home / f"{name}.csv"))
            for name in ("private", "public")
        )
        workload = Workload.all_k_way(domain, 2)
        noise = TalliedNoise(SeededNoise(7), self.tally, points.reach)
        draws = {
            share: Draws(noise, release.account(share), self.store) for share in release.shares
        }
        result = JamPgm(rounds=ROUNDS).run(
            private,
            public,
            workload,
            draws["mechanism"],
            on_round=lambda done: points.reach("round: over"),
        )
        result.model.save(out / "model")
        result.transcript.save(out / "transcript")
        release.account("mechanism").close("ended")
        rng = sampling_generator(result.transcript)
        synthetic = result.model.sample(private.records, rng)
        decode(synthetic, rng).to_csv(out / "synthetic.csv", index=False)
        points.reach("stage evaluate")
        errors = workload_error(
            private, synthetic, public, workload, mode="private", draws=draws["evaluation"]
        )
        (out / "errors.json").write_text(json.dumps(errors.to_dict()))
        release.account("evaluation").close("ended")

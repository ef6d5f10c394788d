"""A release that Dagster makes, to be killed in its step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jam_dagster.privacy import Budget, make_noise
from jam_dagster.release import EvaluationSpec, funding
from tests.pipeline.conftest import UP_TO_SYNTHETIC, Bench, failure, write_tables
from tests.pipeline.test_children import given as two_given
from tests.pipeline.test_children import write_two
from tests.torture.points import Points, install
from tests.torture.tally import TalliedNoise
from tests.torture.victims import Victim

EVALUATION = EvaluationSpec(mode="private", share=0.2)


@dataclass(frozen=True, kw_only=True)
class PipelineRelease(Victim):
    """What materializing a release makes, up to its workload errors."""

    @property
    def dataset(self) -> str:
        return "people"

    def prepare(self) -> None:
        self.home.mkdir(parents=True)
        write_tables(self.home)

    @property
    def budget(self) -> Budget:
        return Budget(2.0, 1e-9)

    @property
    def ledger_file(self) -> Path:
        return self.home / "ledger.sqlite"

    @property
    def archive(self) -> Path:
        """The folder of the release's archive, once it has begun to draw."""
        found = list((self.home / "releases" / "people" / "archive").glob("*"))
        assert len(found) <= 1, "one release has several archives"
        return found[0] if found else self.home / "no archive yet"

    @property
    def out(self) -> Path:
        return self.home / "releases" / "people" / "jam_pgm.run"

    @property
    def draws(self) -> Path:
        return self.archive / "draws"

    @property
    def published(self) -> tuple[Path, ...]:
        made = self.home / "releases" / "people"
        return made / "synthetic_records.csv", made / "workload_error.json"

    def arm(self, points: Points) -> None:
        """Put the points and the tally into this process."""
        install(points, self.tally)
        funding.make_noise = lambda *given: TalliedNoise(  # type: ignore[attr-defined]
            make_noise(*given), self.tally, points.reach
        )

    def run(self, points: Points) -> None:
        self.arm(points)
        with Bench(self.home) as bench:
            result = bench.run(
                [*UP_TO_SYNTHETIC, "workload_error"], evaluation=EVALUATION, **self.changes(bench)
            )
            assert result.success, failure(result)

    def changes(self, bench: Bench) -> dict[str, Any]:
        """Return the keys of the release that differ from those of others."""
        return {}


@dataclass(frozen=True, kw_only=True)
class TwoTables(PipelineRelease):
    """The same of households and their persons."""

    def prepare(self) -> None:
        self.home.mkdir(parents=True)
        write_two(self.home)

    @property
    def published(self) -> tuple[Path, ...]:
        made = self.home / "releases" / "people"
        table, errors = super().published
        return table, errors, made / "synthetic_persons.csv"

    def changes(self, bench: Bench) -> dict[str, Any]:
        return two_given(bench)

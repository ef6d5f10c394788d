"""Several rows a person: what is kept of them, what stays private, what is another release."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms.loops import making
from jam_dagster.pipeline.assets.asset_options import code_version
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.pipeline.storage.formats import RUN
from jam_dagster.privacy import Budget
from jam_dagster.privacy.protection import LARGEST_RECORDS_SIGMA
from jam_dagster.release import EvaluationSpec, MechanismSpec, PrivacySpec, ReleaseSpec, UnitSpec
from jam_dagster.release.engine import Engine
from jam_dagster.tables import (
    Domain,
    EncodedTable,
    MarginalSource,
    SplitSource,
    source_from_config,
)
from tests.pipeline.conftest import (
    DOMAIN,
    UP_TO_SYNTHETIC,
    Bench,
    failure,
    people,
    specification,
    told,
)
from tests.tiers import gate, slow

PERSONS, ROWS = 250, 600
RELATIONS = pytest.mark.parametrize(
    "neighbours", ["replace_one", pytest.param("add_remove", marks=pytest.mark.slow)]
)


def many_rows(rows: int = ROWS, persons: int = PERSONS) -> pd.DataFrame:
    """Return a table in which a person has one row or several."""
    table = people(rows, seed=1)
    who = np.random.default_rng(5).integers(0, persons, rows)
    who[:persons] = np.arange(persons)
    return table.assign(who=[f"person {number}" for number in who])


@pytest.fixture
def unit_bench(bench: Bench) -> Bench:
    many_rows().to_csv(bench.private, index=False)
    return bench


def protects(k: int = 2, neighbours: Any = "replace_one", **more: Any) -> dict[str, Any]:
    privacy = PrivacySpec(
        epsilon=2.0, unit=UnitSpec(column="who", max_rows=k), neighbours=neighbours, **more
    )
    return {"privacy": privacy, "evaluation": EvaluationSpec(mode="private", share=0.2)}


def protects_records(**more: Any) -> dict[str, Any]:
    privacy = PrivacySpec(epsilon=2.0, neighbours="add_remove", **more)
    return {"privacy": privacy, "evaluation": EvaluationSpec(mode="private", share=0.2)}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[MarginalSource]:
    """What each run has opened of the private table, in their order."""
    found: list[MarginalSource] = []
    private_side = Engine.private_side

    def noted(engine: Engine, domain: Domain) -> MarginalSource:
        found.append(private_side(engine, domain))
        return found[-1]

    monkeypatch.setattr(Engine, "private_side", noted)
    return found


def run_of(bench: Bench) -> Any:
    return RUN.read(bench.releases / "people" / "jam_pgm.run")


def table_of(private: MarginalSource) -> pd.DataFrame:
    assert isinstance(private, EncodedTable)
    return private.to_frame()


def kept_of(table: pd.DataFrame, k: int) -> int:
    return int(table["who"].value_counts().clip(upper=k).sum())


# --- what is configured


def spec(**privacy: Any) -> ReleaseSpec:
    privately = PrivacySpec(epsilon=2.0, **privacy)
    return specification(privacy=privately, mechanism=MechanismSpec("jam_pgm"))


def test_a_release_that_protects_records_keeps_its_name() -> None:
    """As it was before there was a choice: another digest would be charged once more."""
    digest = "24d07948d8efd42a7d2d0bed984da5ecdb5b1ea92e15917a67fe31b28657f8da"
    assert spec().digest(DOMAIN) == digest
    assert spec(records_share=0.2).digest(DOMAIN) == digest
    assert code_version(ReleaseGraph(spec()), "private_records") == "1-ebb7d10b5103"


def test_whom_it_protects_makes_another_release() -> None:
    chosen: list[dict[str, Any]] = [
        {},
        {"neighbours": "add_remove"},
        {"neighbours": "add_remove", "records_share": 0.2},
        {"unit": UnitSpec(column="who")},
        {"unit": UnitSpec(column="who", max_rows=2)},
        {"unit": UnitSpec(column="who", max_rows=3)},
        {"unit": UnitSpec(column="name", max_rows=3)},
        {"unit": UnitSpec(column="who", max_rows=3), "neighbours": "add_remove"},
        {"unit": UnitSpec(column="who", max_rows=3), "records_share": 0.2},
    ]
    assert len({spec(**privacy).digest(DOMAIN) for privacy in chosen}) == len(chosen)


def test_rows_that_no_budget_could_count_are_refused() -> None:
    """Sigma of the number of rows is k / sqrt(2 rho): within the limit, and beyond it."""
    rho = Budget(2.0, 1e-9).rho * (1 - 0.05) * 0.05
    most = int(LARGEST_RECORDS_SIGMA * (2 * rho) ** 0.5)
    spec(unit=UnitSpec(column="who", max_rows=most - 1))
    with pytest.raises(SpecificationError, match="lower max_rows"):
        spec(unit=UnitSpec(column="who", max_rows=most + 1))


def test_a_split_table_protects_records_only() -> None:
    split = SplitSource(source_from_config("a.csv"), "sex", "F", 0.5, 0.1)
    for privacy in ({"unit": UnitSpec(column="who")}, {"neighbours": "add_remove"}):
        with pytest.raises(SpecificationError, match="a split table protects only single records"):
            specification(private=split, privacy=PrivacySpec(epsilon=2.0, **privacy))


# --- what is kept, and what is told


@pytest.mark.slow
@RELATIONS
def test_a_release_of_persons(
    unit_bench: Bench, opened: list[MarginalSource], neighbours: str
) -> None:
    result = unit_bench.run(UP_TO_SYNTHETIC, **protects(2, neighbours))
    assert result.success, failure(result)
    assert [one.records for one in opened] == [kept_of(many_rows(), 2)]
    assert opened[0].records < ROWS
    transcript = run_of(unit_bench).transcript
    assert transcript.neighbours.to_dict() == {"relation": neighbours, "max_rows": 2}
    assert transcript.calls[0].step == "records"
    assert transcript.calls[0].rho == pytest.approx(0.05 * transcript.rho_budget)
    shown = told(result)
    assert "dagster/row_count" not in shown["private_records"] | shown["private_discretized"]
    assert shown["public_discretized"]["dagster/row_count"] == 200
    assert shown["synthetic_records"]["dagster/row_count"] == transcript.records
    (description,) = unit_bench.releases.rglob("archive/*/release.json")
    assert "records" not in json.loads(description.read_text())
    # The key that chooses rows lies closed in the private store, and nowhere else.
    (key,) = (unit_bench.closed / "people" / "row_limit").iterdir()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    secret = key.read_bytes()
    assert len(secret) == 32
    for path in unit_bench.home.rglob("*"):
        if path.is_file() and path != key:
            held = path.read_bytes()
            assert secret not in held
            assert secret.hex().encode() not in held


@pytest.mark.slow
def test_how_many_persons_a_column_names_is_not_public(unit_bench: Bench) -> None:
    """Any column could be named, and its number of values would be published for nothing."""
    result = unit_bench.run(UP_TO_SYNTHETIC, **protects(1))
    assert "would show how many persons a column names" in failure(result)
    assert unit_bench.kinds() == []


@pytest.mark.slow
def test_seeded_noise_chooses_rows_by_its_seed(
    unit_bench: Bench, opened: list[MarginalSource]
) -> None:
    def kept(seed: int) -> pd.DataFrame:
        assert unit_bench.run(UP_TO_SYNTHETIC, **protects(2, noise="numpy", seed=seed)).success
        return table_of(opened[-1])

    first = kept(1)
    pd.testing.assert_frame_equal(first, kept(1))
    assert not first.equals(kept(2))
    assert not list(unit_bench.closed.rglob("*.key"))


@pytest.mark.slow
def test_seeded_noise_tells_no_number_of_rows(unit_bench: Bench) -> None:
    """Who knows the seed takes the noise off again, and the seed is no secret."""
    result = unit_bench.run(UP_TO_SYNTHETIC, **protects(2, noise="numpy"))
    assert result.success, failure(result)
    assert "dagster/row_count" not in told(result)["synthetic_records"]


@pytest.mark.slow
@pytest.mark.parametrize("column", ["missing", *slow("whoever")])
def test_a_private_table_that_names_nobody_costs_nothing(unit_bench: Bench, column: str) -> None:
    table = many_rows()
    table["missing"] = table["who"].where(table.index != 7)
    table.to_csv(unit_bench.private, index=False)
    privacy = PrivacySpec(epsilon=2.0, unit=UnitSpec(column=column, max_rows=2))
    message = failure(unit_bench.run(UP_TO_SYNTHETIC, privacy=privacy))
    assert {"whoever": "no column 'whoever'", "missing": "always the same"}[column] in message
    assert "person 7" not in message
    assert set(unit_bench.kinds()) <= {"reserved"}


# --- neighbours


def neighbour(relation: str) -> pd.DataFrame:
    """Return the table without one person, or with that person's rows replaced by one other."""
    table = many_rows()
    whose = table["who"] == "person 3"
    rest = table[~whose]
    if relation == "add_remove":
        return rest
    other = pd.DataFrame([{"sex": "M", "town": "Cork", "job": "none", "age": 1, "who": "new"}])
    return pd.concat([other, rest])


def assert_released_alike(
    bench: Bench,
    opened: list[MarginalSource],
    monkeypatch: pytest.MonkeyPatch,
    other: pd.DataFrame,
    **given: Any,
) -> None:
    """The outcomes of all draws frozen, release a neighbour with another n the same way."""
    monkeypatch.setattr(making, "time", SimpleNamespace(monotonic=lambda: 0.0))
    # The digest of its records would refuse the neighbour.
    monkeypatch.setattr(Engine, "_contents", lambda engine, private: None)

    def release() -> tuple[dict[str, Any], dict[Path, bytes], int]:
        result = bench.run(**given)
        assert result.success, failure(result)
        found = {
            path.relative_to(bench.releases): path.read_bytes()
            for path in bench.releases.rglob("*")
            if path.is_file()
        }
        shown = told(result)
        # The second time, the ledger knows the release.
        del shown["privacy_budget"]
        return shown, found, opened[-1].records

    metadata, files, n = release()
    outcomes = [path for path in files if "draws" in path.parts]
    assert len(outcomes) >= 5  # rows, three selections, the errors, and what was measured
    events = bench.kinds()
    other.to_csv(bench.private, index=False)
    (kept,) = bench.releases.rglob("*.run")
    kept.rename(bench.home / "moved")

    again, files_again, n_again = release()

    assert n_again != n
    assert files_again == files
    assert again == metadata
    assert [kind for kind in bench.kinds()[len(events) :] if kind == "charged"] == []


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", [*gate("replace_one"), "add_remove"])
def test_nothing_that_leaves_depends_on_how_many_rows_there_are(
    unit_bench: Bench,
    opened: list[MarginalSource],
    monkeypatch: pytest.MonkeyPatch,
    neighbours: str,
) -> None:
    given = protects(3, neighbours)
    assert_released_alike(unit_bench, opened, monkeypatch, neighbour(neighbours), **given)


@pytest.mark.gate
def test_nothing_that_leaves_depends_on_whether_there_is_anybody(
    bench: Bench, opened: list[MarginalSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = people(1, seed=1)
    one.to_csv(bench.private, index=False)
    given = protects_records()
    assert_released_alike(bench, opened, monkeypatch, one.iloc[:0], **given)

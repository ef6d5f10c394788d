"""What a store knows of draws, and how few requests it takes to ask."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from jam_dagster.errors import BudgetError
from jam_dagster.mechanisms import Transcript
from jam_dagster.pipeline import ReleaseStoreResource
from jam_dagster.pipeline.storage.store_place import StorePlace, holds_draws_of, stored_draws
from jam_dagster.privacy import ReleaseId
from jam_dagster.release.files import ReleaseFiles
from tests.pipeline.conftest import UP_TO_SYNTHETIC, Bench

# That it does not know the protocol.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Counting(MemoryFileSystem):
    """An object store that counts what it is asked."""

    protocol = "counting"
    store: dict[str, Any] = {}
    pseudo_dirs = [""]
    asked: list[str] = []

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self.asked.append(f"ls {path}")
        return super().ls(path, detail=detail, **options)

    def find(self, path: str, **options: Any) -> Any:
        # One prefix listing where directories are only names, as on S3.
        self.asked.append(f"find {path}")
        return sorted(name for name in self.store if name.startswith(path.rstrip("/") + "/"))

    def info(self, path: str, **options: Any) -> Any:
        self.asked.append(f"info {path}")
        return super().info(path, **options)

    def _open(self, path: str, *options: Any, **named: Any) -> Any:
        self.asked.append(f"open {path}")
        return super()._open(path, *options, **named)


@pytest.fixture
def store() -> ReleaseFiles:
    fsspec.register_implementation("counting", Counting, clobber=True)
    Counting.store.clear()
    return ReleaseStoreResource(root="counting:///jam").open().files


def put(store: ReleaseFiles, release_id: ReleaseId, *steps: str) -> None:
    archive = StorePlace.of(store, release_id, store.path_of("people", "jam_pgm.run"))
    for step in steps:
        archive.outcomes.put(step, {"value": 1})
    store.write(archive.root / "release.json", json.dumps({"key": asdict(release_id)}).encode())


def release_id(partition: str, dataset: str = "people") -> ReleaseId:
    return ReleaseId(dataset, "people", "digest", partition)


@pytest.mark.slow
def test_a_release_of_many_partitions_is_listed_at_once(store: ReleaseFiles) -> None:
    for day in range(200):
        put(store, release_id(f"day-{day}"), "records", "round-0/select")
    Counting.asked.clear()
    found = list(stored_draws(store))
    assert len(found) == 200
    assert {one.files for one in found} == {frozenset({"records.npz", "round-0-select.npz"})}
    assert len([one for one in Counting.asked if one.startswith("find")]) == 1
    assert len(Counting.asked) < 10


def test_what_is_no_draw_does_not_count(store: ReleaseFiles) -> None:
    put(store, release_id("empty"))
    put(store, release_id("drawn"), "records")
    put(store, release_id("drawn", dataset="others"), "records")
    found = list(stored_draws(store))
    assert sorted(str(one.read_id()) for one in found) == [str(release_id("drawn"))] * 2
    assert holds_draws_of("people", store)
    assert not holds_draws_of("strangers", store)


def test_a_damaged_description_is_named_by_the_variable_of_its_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAM_RELEASES", str(tmp_path))
    store = ReleaseStoreResource(root="${JAM_RELEASES}/store").open().files
    put(store, release_id("drawn"), "records")
    (found,) = stored_draws(store)
    (found.folder / "release.json").write_text("{")
    with pytest.raises(BudgetError, match=r"^\$\{JAM_RELEASES\}/store/.*restore it") as refused:
        found.read_id()
    assert str(tmp_path) not in str(refused.value)


@pytest.mark.slow
def test_the_place_of_draws_and_the_io_manager_write_a_run_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Transcript] = []
    save = Transcript.save

    def counted(transcript: Transcript, folder: Any) -> None:
        written.append(transcript)
        save(transcript, folder)

    monkeypatch.setattr(Transcript, "save", counted)
    for _ in ("first", "repeated"):
        assert bench.run(UP_TO_SYNTHETIC).success
        assert len(written) == 1
        assert (bench.releases / "people" / "jam_pgm.run" / "transcript").is_dir()

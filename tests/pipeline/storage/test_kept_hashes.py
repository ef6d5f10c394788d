"""What is read among the releases is what was written there, whoever else can write."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from upath import UPath

from jam_dagster.errors import InputError, SourceError
from jam_dagster.evaluation import TableErrors, WorkloadErrors
from jam_dagster.pipeline.storage.formats import FORMATS
from jam_dagster.pipeline.storage.io_manager import ReleaseStore
from jam_dagster.pipeline.storage.store_resource import ReleaseStoreResource
from jam_dagster.release.files import ReleaseFiles
from jam_dagster.tables import PublicTables
from jam_dagster.tables.sources.table_file import TableFile
from tests.pipeline.conftest import failure
from tests.pipeline.storage.test_io_manager import CODES, DOMAIN, TABLE, a_run, read, write
from tests.tiers import first_quick, slow

KEY = dg.AssetKey(["people", "one"])
VALUES = {
    "table": TABLE,
    "codes": CODES,
    "tables": PublicTables(DOMAIN, {"a": CODES, "b": CODES}),
    "domain": DOMAIN,
    "run": a_run(),
    "errors": WorkloadErrors("private", TableErrors(0.1), TableErrors(0.2), sigma=0.05),
    "page": "<p>epsilon = 1</p>",
}


@pytest.fixture(params=["local", *slow("memory")])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ReleaseStore:
    root = str(tmp_path / "releases") if request.param == "local" else f"memory://{tmp_path}"
    private = ReleaseStoreResource(root=str(tmp_path / "private"), private=True).open()
    return ReleaseStoreResource(root=root).open(private)


def files_of(store: ReleaseStore) -> list[UPath]:
    return sorted(path for path in (store.files.root / "people").rglob("*") if path.is_file())


@pytest.mark.parametrize("name", first_quick(VALUES))
def test_each_file_of_an_asset_is_compared_with_its_hash(store: ReleaseStore, name: str) -> None:
    write(store, "one", VALUES[name])
    first = read(store, "one")
    assert type(first) is type(VALUES[name])
    for path in files_of(store):
        content = path.read_bytes()
        for changed in (content + b" ", content[:-1]):
            path.write_bytes(changed)
            with pytest.raises(InputError, match="people/one in the store of releases is not what"):
                read(store, "one")
        path.unlink()
        with pytest.raises((InputError, SourceError), match=r"Materialize|materialize it first"):
            read(store, "one")
        path.write_bytes(content)
    read(store, "one")


@pytest.mark.parametrize("partition", [None, "2026-01", "a.sha256", "../x"])
def test_what_was_written_before_is_not_what_was_written_last(
    store: ReleaseStore, partition: str | None
) -> None:
    write(store, "one", "<p>first</p>", partition)
    (path,) = files_of(store)
    before = path.read_bytes()
    write(store, "one", "<p>second</p>", partition)
    assert read(store, "one", partition) == "<p>second</p>"
    path.write_bytes(before)
    with pytest.raises(InputError, match="is not what its step wrote"):
        read(store, "one", partition)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_an_asset_without_a_hash_is_made_again(store: ReleaseStore, value: object) -> None:
    """An earlier version kept none, and whoever can write here can put an asset there."""
    earlier = ReleaseStore(ReleaseFiles(store.files.root, private=False))
    write(earlier, "one", value)
    with pytest.raises(InputError, match="has no hash in the private store: an earlier version"):
        read(store, "one")
    write(store, "one", value)
    read(store, "one")


def test_a_file_in_another_format_counts_for_nothing(store: ReleaseStore) -> None:
    write(store, "one", TABLE)
    base = store.beside(KEY, "", "")
    codes = next(known for known in FORMATS if known.holds(CODES))
    # It would be looked for first.
    codes.write(CODES, codes.path(base))
    found = read(store, "one")
    assert isinstance(found, pd.DataFrame)
    pd.testing.assert_frame_equal(found, TABLE)
    write(store, "one", CODES)
    assert [path.name for path in files_of(store)] == ["one.codes.parquet"]


def test_a_table_that_is_read_in_chunks_stays_what_was_compared(
    store: ReleaseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    write(store, "one", TABLE)
    table = store.load(KEY, "", TableFile)
    (path,) = files_of(store)
    path.write_bytes(b"no table")
    pd.testing.assert_frame_equal(table.read(), TABLE)
    with pytest.raises(InputError, match="is not what its step wrote"):
        store.load(KEY, "", TableFile)
    del table
    gc.collect()
    assert [one for one in tmp_path.iterdir() if one.name.startswith("jam-")] == []


def test_an_asset_of_another_type_is_refused(store: ReleaseStore) -> None:
    write(store, "one", DOMAIN)
    with pytest.raises(InputError, match="is a Domain, and no TableFile"):
        store.load(KEY, "", TableFile)


def test_what_has_the_same_name_but_for_case_is_not_read_for_it(
    store: ReleaseStore, tmp_path: Path
) -> None:
    """As a file system that ignores case finds it."""
    write(store, "one", TABLE)
    for root in (store.files.root, UPath(tmp_path / "private")):
        for path in [*(root / "people").iterdir()]:
            if path.is_file():
                (path.parent / path.name.replace("one", "ONE")).write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=r"is not of 'ONE'.*ignores case"):
        read(store, "ONE")
    assert type(read(store, "one")) is type(TABLE)


def test_hashes_of_files_are_those_of_what_was_written(store: ReleaseStore, tmp_path: Path) -> None:
    write(store, "one", TABLE)
    store.files.write(store.beside(KEY, "", ".csv"), b"a,b\n")
    for suffix in (".parquet", ".csv"):
        kept = store.kept_hash(KEY, "", suffix)
        path = store.beside(KEY, "", suffix)
        own = tmp_path / "own"
        own.write_bytes(path.read_bytes())
        assert kept == os.popen(f"sha256sum {own}").read().split()[0]
        path.write_bytes(b"other")
        assert store.kept_hash(KEY, "", suffix) == kept
    assert store.kept_hash(KEY, "", ".html") == ""
    assert (
        ReleaseStore(ReleaseFiles(store.files.root, private=False)).kept_hash(KEY, "", ".csv")
        is None
    )


def planted_pipe(path: Path, secret: Path) -> None:
    os.mkfifo(path)


def planted_link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def planted_folder(path: Path, secret: Path) -> None:
    """Put a link in place of the folder that holds the file."""
    path.parent.rename(path.parent.with_name("aside"))
    shutil.copytree(path.parent.with_name("aside"), secret.with_name("elsewhere"))
    (secret.with_name("elsewhere") / path.name).symlink_to(secret)
    path.parent.symlink_to(secret.with_name("elsewhere"))


@pytest.mark.parametrize("plant", [planted_pipe, planted_link, planted_folder])
def test_no_link_or_pipe_is_followed_whenever_it_is_put_there(
    tmp_path: Path, plant: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is put there after the store has looked for links, and before it reads."""
    private = ReleaseStoreResource(root=str(tmp_path / "private"), private=True).open()
    store = ReleaseStoreResource(root=str(tmp_path / "releases")).open(private)
    write(store, "one", "<p>page</p>")
    path, secret = tmp_path / "releases" / "people" / "one.html", tmp_path / "secret"
    secret.write_text("<p>page</p>")
    path.unlink()
    plant(path, secret)
    monkeypatch.setattr(ReleaseFiles, "plain", lambda _, found: found)
    with pytest.raises(InputError, match="is a link or a device"):
        read(store, "one")


def test_a_reader_of_a_copy_is_warned_that_nothing_vouches_for_it(store: ReleaseStore) -> None:
    write(store, "one", TABLE)
    copy = ReleaseStore(ReleaseFiles(store.files.root, private=False))
    pd.testing.assert_frame_equal(read(copy, "one"), TABLE)
    path = store.files.root / "people" / "one"
    for loading in (
        lambda of: of.get_loading_input_log_message(path),
        lambda of: of.get_loading_input_partition_log_message(path, "2026-01"),
    ):
        assert loading(copy).endswith("nothing vouches for the file.")
        assert "vouches" not in loading(store)


def test_a_releasable_store_has_hashes_wherever_there_is_a_private_one(tmp_path: Path) -> None:
    @dg.asset(io_manager_key="releasable_io_manager")
    def page() -> str:
        return "<p>page</p>"

    def made_with(**private: Any) -> dg.ExecuteInProcessResult:
        releases = ReleaseStoreResource(root=str(tmp_path / "releases"))
        given = {"releasable_io_manager": releases, **private}
        job = dg.Definitions([page], resources=given).resolve_implicit_global_asset_job_def()
        with dg.DagsterInstance.ephemeral() as instance:
            return job.execute_in_process(instance=instance, raise_on_error=False)

    root = str(tmp_path / "private")
    other = failure(made_with(private_io_manager=dg.FilesystemIOManager(base_dir=root)))
    assert "make it a ReleaseStoreResource" in other
    open_ = failure(made_with(private_io_manager=ReleaseStoreResource(root=root)))
    assert "Set private=True" in open_
    assert not (tmp_path / "releases").exists()
    stated = ReleaseStoreResource(root=root, private=True)
    assert made_with(private_io_manager=stated).success
    assert (tmp_path / "private" / "page.sha256").exists()
    # Whoever only reads what was released has no private store.
    assert made_with().success

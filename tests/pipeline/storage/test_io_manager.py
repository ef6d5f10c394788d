import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import dagster as dg
import numpy as np
import pandas as pd
import pytest
from dagster._core.definitions.scoped_resources_builder import ScopedResourcesBuilder
from upath import UPath

from jam_dagster.errors import (
    FullDiskError,
    InputError,
    PrivateStepError,
    SourceError,
    SpecificationError,
)
from jam_dagster.evaluation import TableErrors, WorkloadErrors
from jam_dagster.evaluation.utility import Regression, Score, TargetUtility
from jam_dagster.mechanisms import FittedModel, Measurement, Round, Transcript
from jam_dagster.pipeline.storage import formats
from jam_dagster.pipeline.storage.formats import FORMATS, RUN
from jam_dagster.pipeline.storage.io_manager import ReleaseStore
from jam_dagster.pipeline.storage.store_resource import ReleaseStoreResource, check_stores
from jam_dagster.privacy import REPLACE_ONE, NoiseCall, ReleaseId
from jam_dagster.release.files import ReleaseFiles
from jam_dagster.release.run import ReleaseErrors, ReleaseIdentity, ReleaseRun
from jam_dagster.tables import (
    CategoricalAttribute,
    Domain,
    EncodedTable,
    NumericAttribute,
    PublicTables,
)
from jam_dagster.tables.domain.text_dtype import text_dtype
from tests.dtypes import rows_of_every_dtype
from tests.full_disk import files_of_at_most
from tests.tiers import slow

DOMAIN = Domain(
    (
        CategoricalAttribute("sex", ("F", "M"), nullable=True),
        NumericAttribute("age", (0, 10, 20.5), nullable=False),
    )
)
TABLE = pd.DataFrame(
    {
        "sex": pd.array(["F", None, "M"], dtype=text_dtype()),
        "age": [1.5, 11.0, 20.0],
        "rooms": pd.array([1, None, 3], dtype="Int64"),
    }
)
CODES = EncodedTable.from_frame(DOMAIN, pd.DataFrame({"sex": [0, 2, 1], "age": [0, 1, 1]}))


def a_run() -> ReleaseRun:
    values = np.array([[1.5, 0.0], [0.5, 1.0], [0.0, 0.25]])
    measured = Measurement(("sex", "age"), "private", values, 2.5, 0)
    done = Round(
        index=0,
        clique=("sex", "age"),
        source="private",
        candidates=3,
        rho_select=0.1,
        rho_measure=0.2,
        rho_spent=0.3,
        sigma=2.5,
        size_limit_mb=1.0,
        model_mb=0.1,
        l1_residual=0.05,
        iterations=20,
        loss=0.001,
        seconds=0.1,
        measurement=measured,
    )
    told = ("all rounds", "exact", True, REPLACE_ONE, (), "")
    transcript = Transcript("jam_pgm", {"rounds": 1}, DOMAIN.digest, 3, 0.5, 0.3, (done,), *told)
    model = FittedModel(DOMAIN, 3.0, {("sex", "age"): np.log(values + 1)})
    release_id = ReleaseId("people", "yearly", "3f9a", "2026-01", "2")
    return ReleaseRun(model, transcript, ReleaseIdentity(release_id, 1.0, 1e-9, {"mechanism": 0.5}))


# Dagster makes an instance with all its tables for a context that is not given any resources.
NO_RESOURCES = ScopedResourcesBuilder().build(frozenset())


def partitions_of(partition: str | None) -> dg.PartitionsDefinition | None:
    return dg.StaticPartitionsDefinition([partition]) if partition else None


def context(name: str, partition: str | None) -> dg.OutputContext:
    return dg.build_output_context(
        asset_key=dg.AssetKey(["people", name]),
        partition_key=partition,
        asset_partitions_def=partitions_of(partition),
        resources=NO_RESOURCES,
    )


def write(store: ReleaseStore, name: str, value: object, partition: str | None = None) -> None:
    store.handle_output(context(name, partition), value)


def read(store: ReleaseStore, name: str, partition: str | None = None) -> object:
    upstream, partitions = context(name, partition), partitions_of(partition)
    given = dg.InputContext(
        upstream_output=upstream,
        asset_key=dg.AssetKey(["people", name]),
        partition_key=partition,
        asset_partitions_def=partitions,
        asset_partitions_subset=partitions.subset_with_partition_keys([partition])
        if partitions and partition
        else None,
        resources=NO_RESOURCES,
        log_manager=upstream.log,
    )
    return store.load_input(given)


@pytest.fixture(params=["local", *slow("memory")])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ReleaseStore:
    root = str(tmp_path / "kept") if request.param == "local" else f"memory://{tmp_path}"
    return ReleaseStoreResource(root=root).open()


@pytest.fixture(params=["", "file://"])
def closed(request: pytest.FixtureRequest, tmp_path: Path) -> ReleaseStore:
    root = f"{request.param}{tmp_path}/deep/private"
    return ReleaseStoreResource(root=root, private=True).open()


def test_every_dtype_of_a_table_comes_back(tmp_path: Path) -> None:
    table, path = rows_of_every_dtype(100), UPath(tmp_path / "table.parquet")
    formats.TABLE.write(table, path)
    pd.testing.assert_frame_equal(formats.TABLE.read(path), table)


def test_table_comes_back_as_it_was(store: ReleaseStore) -> None:
    write(store, "records", TABLE)
    found = read(store, "records")
    assert isinstance(found, pd.DataFrame)
    pd.testing.assert_frame_equal(found, TABLE)
    assert (store.files.root / "people" / "records.parquet").exists()


def test_codes_come_back_with_their_domain(store: ReleaseStore) -> None:
    write(store, "codes", replace(CODES, clipped={"a": 0.25}))
    found = read(store, "codes")
    assert isinstance(found, EncodedTable)
    assert found.domain == DOMAIN
    assert found.clipped == {"a": 0.25}
    for name in DOMAIN.names:
        assert found.column(name).dtype == CODES.column(name).dtype
        np.testing.assert_array_equal(found.column(name), CODES.column(name))


def test_run_that_was_half_replaced_is_not_there(
    store: ReleaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, "run", a_run())

    def crashes(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Transcript, "save", crashes)
    with pytest.raises(OSError, match="disk"):
        RUN.write(a_run(), store.files.root / "people" / "run.run")
    with pytest.raises(SourceError, match="materialize it"):
        read(store, "run")


def test_run_comes_back(store: ReleaseStore) -> None:
    made = a_run()
    write(store, "run", made)
    found = read(store, "run")
    assert isinstance(found, ReleaseRun)
    assert found.release == made.release
    assert found.digest == made.digest
    assert found.transcript.rho_spent == made.transcript.rho_spent
    np.testing.assert_array_equal(
        found.transcript.measurements[0].values, made.transcript.measurements[0].values
    )
    np.testing.assert_allclose(found.model.marginal(("sex",)), made.model.marginal(("sex",)))


TEXTS = ("01008", "08", "1e5", "12e03", "1E400", "-09", "no", "12:30", "0x1f", "1_000")


@pytest.mark.parametrize(
    "value",
    [
        DOMAIN,
        # Versions of YAML differ in which texts are numbers.
        Domain((CategoricalAttribute("zip", TEXTS),)),
        "<p>ε = 1</p>",
        WorkloadErrors(
            "private",
            TableErrors(0.1),
            TableErrors(-0.02),
            sigma=0.05,
            uniform=TableErrors(0.4),
            bought=TableErrors(0.3),
            sample_equivalent=7,
            equivalent_within=(6, 9),
        ),
        WorkloadErrors(
            "off", rho=1e-3, call=NoiseCall("means", "Gaussian", 1e-3, 0.1, None, 2, lost=True)
        ),
        WorkloadErrors(
            "exact",
            *(TableErrors(0.1, 0.2, {("sex",): 0.2, ("sex", "age"): 0.1}) for _ in range(3)),
            uniform=TableErrors(
                0.1, 0.2, {("sex",): 0.2}, pairs=0.1, correlation=0.3, scores={"sex": (0.5, 0.5)}
            ),
            utility=(TargetUtility("sex", {"synthetic": Score(0.7, 0.6, 0.8)}),),
            regressions=(Regression("age ~ sex", {"private": (0.1,), "public": (0.2,)}),),
        ),
        ReleaseErrors("off", run="3f9a"),
    ],
)
def test_domains_errors_and_pages_come_back(store: ReleaseStore, value: object) -> None:
    write(store, "made", value)
    assert read(store, "made") == value


def test_public_tables_come_back(store: ReleaseStore) -> None:
    domain = Domain.from_sizes({"a": 2, "b": 3})
    part = EncodedTable(domain.project("b"), (np.array([0, 2]),))
    whole = EncodedTable(domain, (np.array([1]), np.array([2])))
    write(store, "public", PublicTables(domain, {"survey": part, "census": whole}))
    back = read(store, "public")
    assert isinstance(back, PublicTables)
    assert list(back.tables) == ["survey", "census"]
    assert back.domain.digest == domain.digest
    assert back.tables["survey"].domain.digest == part.domain.digest
    for clique in [("a",), ("b",), ("a", "b")]:
        assert back.marginal(clique).sum() == 2
    assert back.marginal(("b",)).tolist() == [1, 0, 1]


@pytest.mark.slow
def test_an_asset_that_became_of_another_type_is_what_it_is_now(store: ReleaseStore) -> None:
    domain = Domain.from_sizes({"a": 2})
    one = EncodedTable(domain, (np.array([1]),))
    several = PublicTables(domain, {"survey": one, "census": one})
    for value in (one, several, one, several):
        write(store, "public", value)
        assert isinstance(read(store, "public"), type(value))


def test_nothing_is_pickled(store: ReleaseStore) -> None:
    with pytest.raises(TypeError, match="is a set; this store keeps"):
        write(store, "other", {1, 2})
    assert len(FORMATS) == 8


def test_asset_that_was_never_made_is_named(store: ReleaseStore) -> None:
    with pytest.raises(SourceError, match=r"people/records is not in the store.*materialize it"):
        read(store, "records")


def test_partitions_lie_apart(store: ReleaseStore) -> None:
    other = TABLE.iloc[:1].reset_index(drop=True)
    write(store, "records", TABLE, "2026-01")
    write(store, "records", other, "2026-02")
    assert len(read(store, "records", "2026-01")) == 3  # type: ignore[arg-type]
    assert len(read(store, "records", "2026-02")) == 1  # type: ignore[arg-type]
    assert (store.files.root / "people" / "records" / "2026-02.parquet").exists()


def test_no_partition_is_taken_for_a_file_of_another(store: ReleaseStore) -> None:
    partitions = ["A", "A.codes", "A.parquet", "A.codes.parquet"]
    for value in (TABLE, CODES):
        for partition in partitions:
            write(store, "records", value, partition)
        assert {type(read(store, "records", one)) for one in partitions} == {type(value)}


@pytest.mark.parametrize("partition", ["..", "../..", "/etc", "a/../../b"])
def test_no_partition_leads_out(tmp_path: Path, partition: str) -> None:
    store = ReleaseStoreResource(root=str(tmp_path / "kept")).open()
    write(store, "records", TABLE, partition)
    inside = store.files.root / "people" / "records"
    files = [path.resolve() for path in tmp_path.rglob("*.parquet")]
    assert files
    assert all(Path(inside).resolve() in path.parents for path in files)


@pytest.mark.parametrize("suffix", ["", ".csv"])
def test_nothing_lies_beside_an_asset_behind_a_link(tmp_path: Path, suffix: str) -> None:
    """A certificate's folder has no suffix, and files of it are written and read by themselves."""
    store = ReleaseStore(ReleaseFiles(UPath(tmp_path / "open").absolute(), private=False))
    key = dg.AssetKey(["people", "release_certificate"])
    (tmp_path / "open" / "people").mkdir(parents=True)
    (tmp_path / "definitions").mkdir()
    planted = tmp_path / "open" / "people" / f"release_certificate{suffix}"
    planted.symlink_to(tmp_path / "definitions")
    with pytest.raises(InputError, match="is a link or a device"):
        store.beside(key, "", suffix)


@pytest.mark.parametrize("value", ["table", "codes", "run"])
def test_nothing_is_read_or_written_through_a_link(tmp_path: Path, value: str) -> None:
    """Who may write among releases could let a step read private rows, or remove other files."""
    elsewhere = ReleaseStore(ReleaseFiles(UPath(tmp_path / "closed").absolute(), private=True))
    store = ReleaseStore(ReleaseFiles(UPath(tmp_path / "open").absolute(), private=False))
    made = {"table": TABLE, "codes": CODES, "run": a_run()}[value]
    write(elsewhere, value, made)
    write(store, value, made)
    (theirs,) = (tmp_path / "closed" / "people").iterdir()
    (ours,) = (tmp_path / "open" / "people").iterdir()
    links = [(ours, theirs)]
    if value == "run":
        links = [(ours / name, theirs / name) for name in ("model", "run.json")]
    links.append((tmp_path / "open" / "people", tmp_path / "closed" / "people"))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "closed").rglob("*")}
    for link, target in links:
        moved = link.rename(tmp_path / "moved")
        link.symlink_to(target)
        with pytest.raises(InputError, match="is a link or a device"):
            read(store, value)
        with pytest.raises(InputError, match="is a link or a device"):
            write(store, value, made)
        link.unlink()
        moved.rename(link)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "closed").rglob("*")} == before
    read(store, value)


@pytest.mark.parametrize("where", ["", "model", "transcript"])
def test_a_run_replaces_no_file_behind_a_link_that_was_put_there_meanwhile(
    tmp_path: Path, where: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "ledger.db").write_text("all that was spent")
    folder = tmp_path / "people.run"
    link = folder / where if where else folder
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    RUN.write(a_run(), UPath(folder))
    assert [path.name for path in elsewhere.iterdir()] == ["ledger.db"]
    assert isinstance(RUN.read(UPath(folder)), ReleaseRun)


def test_what_a_link_leads_to_is_named_as_the_root_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_ROOT", str(tmp_path / "tenant"))
    store = ReleaseStoreResource(root="${SECRET_ROOT}").open()
    write(store, "table", TABLE)
    path = tmp_path / "tenant" / "people" / "table.parquet"
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    with pytest.raises(InputError, match="is a link or a device") as refused:
        read(store, "table")
    assert "tenant" not in str(refused.value)
    assert "${SECRET_ROOT}" in str(refused.value)


def test_private_files_are_closed_to_others(closed: ReleaseStore, tmp_path: Path) -> None:
    for name, value in (("records", TABLE), ("codes", CODES), ("run", a_run())):
        write(closed, name, value)
    closed.files.write(closed.beside(dg.AssetKey(["people", "records"]), "", ".csv"), b"a\n1\n")
    root = tmp_path / "deep" / "private"
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [root, *root.rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert any(path.suffix == ".npz" for path in modes)


def test_private_root_that_was_open_is_closed(tmp_path: Path) -> None:
    root = tmp_path / "private"
    (root / "people").mkdir(parents=True, mode=0o755)
    (root / "people" / "records.parquet").write_text("old")
    write(ReleaseStoreResource(root=str(root), private=True).open(), "records", TABLE)
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "people" / "records.parquet").stat().st_mode) == 0o600


def test_private_errors_quote_nothing(closed: ReleaseStore) -> None:
    # Arrow has no complex numbers, and names the column.
    unwritable = pd.DataFrame({"SENTINEL": [1j]})
    with pytest.raises(PrivateStepError) as caught:
        write(closed, "records", unwritable)
    message = str(caught.value)
    assert "writing people/records" in message
    assert "SENTINEL" not in message
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("private", [True, False])
def test_variables_in_the_root_are_shown_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, private: bool
) -> None:
    monkeypatch.setenv("WHERE", f"{tmp_path}/tok3n")
    store = ReleaseStoreResource(root="${WHERE}/x", private=private).open()
    assert store.files.place == "${WHERE}/x"
    path = store.files.root / "people" / "records"
    shown = [
        store.get_writing_output_log_message(path),
        store.get_loading_input_log_message(path),
        store.get_loading_input_partition_log_message(path, "A"),
    ]
    metadata = store.get_metadata(context("records", None), TABLE)
    shown.append(str(metadata["path"].value))
    with pytest.raises((SourceError, PrivateStepError)) as missing:
        read(store, "records")
    # A file where there should be a folder.
    (tmp_path / "tok3n").mkdir()
    (tmp_path / "tok3n" / "x").touch()
    for attempt in (
        lambda: write(store, "records", TABLE),
        lambda: store.files.write(path.with_name("records.csv"), b"a"),
    ):
        with pytest.raises((SourceError, PrivateStepError)) as refused:
            attempt()
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__
        shown.append(str(refused.value))
    assert "tok3n" not in "\n".join([*shown, str(missing.value)])
    assert all("${WHERE}/x/people/records" in one for one in shown[:4])
    with pytest.raises(SpecificationError, match=r"\(\$\{WHERE\}/x\)"):
        check_stores(*stores("${WHERE}/x", "${WHERE}/x/y"))


def stores(private: str, releasable: str) -> tuple[ReleaseStore, ReleaseStore]:
    closed = ReleaseStoreResource(root=private, private=True).open()
    return closed, ReleaseStoreResource(root=releasable).open(closed)


@pytest.mark.parametrize(
    ("private", "releasable", "apart"),
    [
        ("{}/private", "{}/releases", True),
        ("{}/private", "{}/private-not", True),
        ("{}/private", "memory://{}/private", True),
        ("memory://a/private", "memory://a/releases", True),
        ("{}/one", "{}/one", False),
        ("{}/one", "{}/one/", False),
        ("file://{}/one", "{}/one", False),
        ("{}/one/private", "{}/one", False),
        ("{}/one", "{}/one/releases", False),
        ("{}/one", "{}/two/../one", False),
        ("{}/one", "{}/link", False),
        ("memory://a", "memory://a/releases", False),
        ("memory://a/b", "memory://a/b/", False),
    ],
)
def test_stores_lie_apart(tmp_path: Path, private: str, releasable: str, apart: bool) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "one")
    two = stores(private.format(tmp_path), releasable.format(tmp_path))
    if apart:
        check_stores(*two)
    else:
        with pytest.raises(SpecificationError, match="share a place"):
            check_stores(*two)


def test_each_store_is_what_it_is_called(tmp_path: Path) -> None:
    private, releasable = stores(f"{tmp_path}/private", f"{tmp_path}/releases")
    with pytest.raises(SpecificationError, match=r"private_io_manager is .* without private=True"):
        check_stores(releasable, private)
    with pytest.raises(SpecificationError, match="keeps no hashes in private_io_manager"):
        check_stores(private, ReleaseStoreResource(root=f"{tmp_path}/releases").open())
    other = ReleaseStoreResource(root=f"{tmp_path}/other", private=True).open()
    with pytest.raises(SpecificationError, match=r"releasable_io_manager is .* with private=True"):
        check_stores(private, other)
    with pytest.raises(SpecificationError, match="private_io_manager is a InMemoryIOManager"):
        check_stores(dg.InMemoryIOManager(), releasable)


def test_further_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    """A release whose note of its data was torn could never go on."""
    store = ReleaseStoreResource(root=str(tmp_path)).open()
    path = store.files.root / "release" / "data.json"
    store.files.write(path, b"before")
    said = r"no room in .* \(File too large\): free some, and run again. No stored draw is paid"
    with files_of_at_most(1000), pytest.raises(FullDiskError, match=said):
        store.files.write(path, bytes(2000))
    assert path.read_bytes() == b"before"
    assert [found.name for found in (tmp_path / "release").iterdir()] == ["data.json"]


@pytest.mark.parametrize("value", [TABLE, CODES, a_run()], ids=["table", "codes", "run"])
def test_a_private_store_on_a_full_disk_says_so_and_leaves_nothing_half(
    tmp_path: Path, value: object
) -> None:
    store = ReleaseStoreResource(root=str(tmp_path), private=True).open()
    said = "The system says: File too large"
    with files_of_at_most(100), pytest.raises(PrivateStepError, match=said) as caught:
        write(store, "private_records", value)
    assert str(tmp_path) not in str(caught.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    write(store, "private_records", value)


def test_two_runs_may_write_the_same_asset_at_once(tmp_path: Path) -> None:
    path = UPath(tmp_path / "page.html")
    page = next(known for known in FORMATS if known.holds(""))

    def write(_: int) -> None:
        for _ in range(50):
            page.write("a page", path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert page.read(path) == "a page"
    assert [found.name for found in tmp_path.iterdir()] == ["page.html"]

"""Files as the place of draws: what they hold, and what is made again from them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from jam_dagster.errors import InputError, SourceBindingError
from jam_dagster.privacy import DirectoryStore, Ledger
from jam_dagster.release.engine import Engine
from jam_dagster.release.files import ReleaseFiles
from jam_dagster.release.folder import ReleaseFolder
from jam_dagster.release.funding import LedgerFunding
from jam_dagster.release.place import FilePlace, FolderPlace, archive_name
from jam_dagster.release.public_side import public_codes, public_records
from jam_dagster.release.run import RUN_FILE, ReleaseRun, identity_in, read_run, write_run
from jam_dagster.tables import FrameSource
from tests.budgets import PUBLIC_N
from tests.release.test_engine import DOMAIN, ledger, specification, table
from tests.tiers import slow_rows

__all__ = ["ledger"]


def engine(home: Path, ledger: Ledger, **changes: Any) -> Engine:
    """Return the engine of a release whose runs lie in one folder, as an asset's do."""
    spec = specification(**{"noise": "exact", "epsilon": 0.3, **changes})
    release_id = spec.release_id(DOMAIN)
    store, closed = UPath(home), ReleaseFiles(UPath(home / "closed"), private=True)
    files = ReleaseFiles(store, private=False, hashes_in=closed)
    place = FilePlace(
        store=files,
        release_id=release_id,
        root=store / "archive" / archive_name(release_id),
        run=store / "asset.run",
        run_files=files,
        spec=spec,
        domain=DOMAIN,
        private=closed,
        restricted=closed,
    )
    protection = spec.privacy.protection
    funding = LedgerFunding(ledger, release_id, spec.shares, protection, place, "run 1")
    return Engine(spec, DOMAIN, place, funding)


def drawn(release: Engine) -> tuple[ReleaseRun, bool]:
    release.reserve()
    records = public_records(release.spec)
    public = public_codes(release.spec, records, DOMAIN)
    return release.run(release.encode(DOMAIN), public)


def test_a_table_has_one_name_in_all_refusals(tmp_path: Path, ledger: Ledger) -> None:
    """The officer names it to the ledger, so the secret that keys it is kept by a check, too."""
    policy = replace(PUBLIC_N, partitions="disjoint", ground="membership public and fixed")
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=policy)
    funding = engine(tmp_path, ledger).funding
    assert isinstance(funding, LedgerFunding)
    ledger.open_release(replace(funding.release_id, partition="2016"), funding.shares)
    release_id = replace(funding.release_id, partition="2017")
    funding = replace(funding, release_id=release_id, identity="people of 2017", table="people")
    for _ in range(2):
        with pytest.raises(SourceBindingError, match="another table than") as refused:
            funding.check()
    command = shlex.split(str(refused.value).partition("let the officer say so: `")[2])
    named = command[command.index("--table") + 1]
    assert ledger.rebind("people", partition="2016", table=named, reason="the same table")
    funding.check()


@pytest.mark.slow
def test_an_edition_that_another_followed_is_made_again_from_its_draws_alone(
    tmp_path: Path, ledger: Ledger
) -> None:
    first, _ = drawn(engine(tmp_path, ledger))
    again, repeated = drawn(engine(tmp_path, ledger))
    assert repeated
    assert again.digest == first.digest
    drawn(engine(tmp_path, ledger, edition="2"))
    events = ledger.events()

    third, repeated = drawn(engine(tmp_path, ledger))

    assert not repeated
    assert third.digest == first.digest
    assert ledger.events() == events
    assert len(list(tmp_path.rglob("model.json"))) == 1


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"private": table(200, 3)}, "private table"),
        *slow_rows(({"public": FrameSource(table(51, 2), "survey")}, "public table")),
    ],
)
def test_draws_on_other_data_are_refused_before_any_charge(
    tmp_path: Path, ledger: Ledger, changes: dict[str, Any], what: str
) -> None:
    drawn(engine(tmp_path, ledger))
    events = ledger.events()

    with pytest.raises(InputError, match=f"holds draws .* with another {what}"):
        drawn(engine(tmp_path, ledger, **changes))
    assert ledger.events() == events
    kept = list((tmp_path / "closed").rglob("*.json"))
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}


@pytest.mark.parametrize("left", ["nothing", "another one"])
def test_a_description_that_the_private_store_knows_is_written_again(
    tmp_path: Path, ledger: Ledger, left: str
) -> None:
    """A crash leaves the hash without it; somebody else could say that other data were drawn on."""
    drawn(engine(tmp_path, ledger))
    (description,) = tmp_path.rglob("release.json")
    before = description.read_bytes()
    description.unlink()
    if left == "another one":
        description.write_bytes(before.replace(b'"public": "', b'"public": "0'))
        other = table(51, 2)
        with pytest.raises(InputError, match="is not what was written there"):
            drawn(engine(tmp_path, ledger, public=FrameSource(other, "survey")))
    assert drawn(engine(tmp_path, ledger))[1]
    assert description.read_bytes() == before


def test_a_run_is_written_where_it_does_not_lie_yet(tmp_path: Path, ledger: Ledger) -> None:
    run, _ = drawn(engine(tmp_path, ledger))
    folder, marker = tmp_path / "asset.run", tmp_path / "asset.run" / RUN_FILE
    transcript = folder / "transcript" / "transcript.json"
    written = marker.read_text()
    for one in (run, read_run(folder)):
        marker.write_text(f"{written}\n")
        write_run(one, folder)
        assert marker.read_text() == f"{written}\n"
    write_run(replace(run), folder)
    assert marker.read_text() == written
    for damaged in (transcript, marker):
        damaged.unlink()
        write_run(run, folder)
        assert identity_in(folder) == run.release
    write_run(run, tmp_path / "other.run")
    assert identity_in(tmp_path / "other.run") == run.release


def test_no_run_and_no_draw_is_read_through_a_link(tmp_path: Path, ledger: Ledger) -> None:
    drawn(engine(tmp_path, ledger))
    run = tmp_path / "asset.run"
    draws = next(tmp_path.rglob("draws"))
    step = next(draws.iterdir()).stem
    for path, read in (
        (run / RUN_FILE, lambda: read_run(run)),
        (run / "transcript" / "transcript.json", lambda: read_run(run)),
        (run / "model", lambda: read_run(run)),
        (run / RUN_FILE, lambda: identity_in(run)),
        (run / "transcript" / "transcript.json", lambda: identity_in(run)),
        (run / "model", lambda: identity_in(run)),
        (next(draws.iterdir()), lambda: DirectoryStore(draws).get(step)),
        (draws, lambda: DirectoryStore(draws).get(step)),
    ):
        read()
        # All the same content, elsewhere.
        elsewhere = path.rename(tmp_path / "elsewhere")
        path.symlink_to(elsewhere)
        with pytest.raises(InputError, match="is a link or a device"):
            read()
        path.unlink()
        elsewhere.rename(path)
    read()


def test_a_folder_that_another_run_begins_meanwhile_is_of_a_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its description is written before its domain, so it is looked for after it."""
    looked = ReleaseFolder.holds_output

    def begun_meanwhile(folder: ReleaseFolder) -> str | None:
        folder.release.write_text('{"noise": "numpy", "key": null}')
        (folder.path / "domain.yaml").write_text("attributes: {}\n")
        return looked(folder)

    monkeypatch.setattr(ReleaseFolder, "holds_output", begun_meanwhile)
    (tmp_path / "out").mkdir()
    folder, spec = ReleaseFolder(tmp_path / "out"), specification(noise="numpy")
    place = FolderPlace(
        store=folder.files,
        release_id=spec.release_id(DOMAIN),
        root=folder.files.root,
        run=folder.files.root,
        run_files=folder.files,
        spec=spec,
        folder=folder,
    )
    place.check_free(None)

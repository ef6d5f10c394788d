"""Private copies: how they are known, and that nothing goes that a release still needs."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pandas as pd
import pytest
from upath import UPath

from jam_dagster.errors import BudgetError, InputError
from jam_dagster.privacy import Ledger, ReleaseKey
from jam_dagster.privacy.private_copies import (
    INGESTION_ATTRIBUTE,
    Judged,
    copies_in_folder,
    copies_in_store,
    judged,
    remove,
)

NOW = datetime.now(UTC)
SHARES = {"mechanism": 0.001, "evaluation": 0.0001}
SAID = {"edition": "1", "partition": "", "limit": "", "dataset": "people", "release": "yearly"}
SAID |= {"noise": "exact", "retention_days": 30}


@pytest.fixture(params=["local", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path | UPath:
    if request.param == "local":
        return tmp_path / "private"
    return UPath(f"memory://{tmp_path}/private")


@pytest.fixture
def release(ledger: Ledger):
    """A release that was charged; the test closes it."""
    release = ledger.open_release(ReleaseKey("people", "yearly", "x"), SHARES)
    release.account("mechanism").charge("round-000/select", 1e-4)
    return release


def table(root: Path | UPath, name: str, said: dict | None) -> Path | UPath:
    frame = pd.DataFrame({"secret": ["SENTINEL"]})
    if said is not None:
        frame.attrs[INGESTION_ATTRIBUTE] = said
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(frame.to_parquet(index=False))
    return path


def look(root: Path | UPath, ledger: Ledger | None, now: datetime = NOW) -> dict[str, Judged]:
    return {one.copy.name: one for one in judged(copies_in_store(root), ledger, now)}


LATER = NOW + timedelta(days=31)


def test_a_copy_is_needed_until_its_release_has_ended_and_is_due_when_it_said(
    root, ledger, release
):
    path = table(root, "yearly/private_records.parquet", SAID)
    (one,) = look(root, ledger, LATER).values()
    assert (one.copy.kind, one.copy.dataset, one.copy.release) == ("table", "people", "yearly")
    assert "has not ended" in one.kept_because
    release.account("mechanism").close()
    # One share is still open: its draw is still to be made.
    (one,) = look(root, ledger, LATER).values()
    assert "has not ended" in one.kept_because
    with pytest.raises(InputError, match="has not ended"):
        remove(one)
    assert path.exists()

    release.close()

    (one,) = look(root, ledger).values()
    assert one.kept_because == ""
    assert not one.is_due(NOW)
    assert one.due is not None
    assert one.is_due(one.due)
    assert one.due - timedelta(days=30) >= one.copy.written - timedelta(seconds=1)
    assert remove(one)
    assert not path.exists()
    assert not remove(one)


def test_without_its_ledger_a_copy_stays(root, ledger, tmp_path):
    table(root, "yearly/private_records.parquet", SAID)
    (one,) = look(root, None, LATER).values()
    assert "only its ledger knows" in one.kept_because
    (one,) = look(root, ledger, LATER).values()
    assert "knows no such release" in one.kept_because
    with pytest.raises(BudgetError, match="no ledger"):
        look(root, Ledger(tmp_path / "absent.db"), LATER)
    moved = Ledger(ledger.location)
    moved.move(tmp_path / "new.db")
    with pytest.raises(BudgetError, match="has moved to"):
        look(root, moved, LATER)


@pytest.mark.parametrize(
    "other",
    [{"dataset": "firms"}, {"release": "monthly"}, {"partition": "2026"}, {"edition": "2"}],
)
def test_the_end_of_another_release_is_not_its_own(root, ledger, release, other):
    release.close()
    table(root, "yearly/private_records.parquet", {**SAID, **other})
    (one,) = look(root, ledger, LATER).values()
    assert "knows no such release" in one.kept_because


def test_another_specification_of_the_same_release_may_still_need_it(root, ledger, release):
    release.close()
    table(root, "yearly/private_records.parquet", SAID)
    ledger.open_release(ReleaseKey("people", "yearly", "y"), SHARES)
    (one,) = look(root, ledger, LATER).values()
    assert "has not ended" in one.kept_because


def test_research_needs_no_ledger(root):
    table(root, "yearly/private_records.parquet", {**SAID, "noise": "numpy"})
    (one,) = look(root, None, LATER).values()
    assert one.is_due(LATER)
    assert not one.is_due(NOW)


def test_what_is_not_known_is_listed_and_stays(root, ledger, release):
    release.close()
    table(root, "yearly/domain.parquet", None)
    (root / "yearly" / "row_limit").mkdir()
    (root / "yearly" / "row_limit" / "abc.key").write_bytes(b"k" * 32)
    (root / "secret").write_bytes(b"s" * 32)
    (root / "yearly" / "broken.parquet").write_bytes(b"PAR1 nothing")
    (root / "yearly" / "empty.parquet").write_bytes(b"")
    found = look(root, ledger, LATER)
    assert set(found) == {
        "secret",
        "yearly/broken.parquet",
        "yearly/domain.parquet",
        "yearly/empty.parquet",
        "yearly/row_limit/abc.key",
    }
    for one in found.values():
        assert one.copy.kind == "other"
        with pytest.raises(InputError, match="not a private table"):
            remove(one)
        assert one.copy.path.exists()


def test_what_a_killed_writer_left_goes_after_a_day(root, ledger):
    (root / "yearly").mkdir(parents=True)
    name = f"yearly/.private_records.parquet.{uuid4().hex}"
    (root / name).write_bytes(b"half a table")
    (one,) = look(root, ledger).values()
    assert (one.copy.kind, one.kept_because) == ("unfinished", "it may be being written")
    (one,) = look(root, None, NOW + timedelta(days=2)).values()
    assert one.is_due(NOW + timedelta(days=2))
    assert remove(one)


def test_a_copy_that_is_written_meanwhile_stays(root, ledger, release):
    release.close()
    path = table(root, "yearly/private_records.parquet", SAID)
    (one,) = look(root, ledger, LATER).values()
    path.write_bytes(path.read_bytes() + b"more")
    assert not remove(one)
    assert path.exists()


def test_links_are_not_followed(tmp_path, ledger, release):
    release.close()
    elsewhere = table(tmp_path / "elsewhere", "yearly/private_records.parquet", SAID)
    root = tmp_path / "private"
    (root / "yearly").mkdir(parents=True)
    (root / "yearly" / "private_records.parquet").symlink_to(elsewhere)
    (root / "monthly").symlink_to(elsewhere.parent)
    found = look(root, ledger, LATER)
    assert {name: one.copy.kind for name, one in found.items()} == {
        "yearly/private_records.parquet": "other"
    }


def test_partitions_and_sizes(root, ledger):
    key = ReleaseKey("people", "yearly", "x", "2026-01")
    ledger.open_release(key, SHARES).close()
    path = table(root, "yearly/private_records/2026-01.parquet", {**SAID, "partition": "2026-01"})
    table(root, "yearly/private_records/2026-02.parquet", {**SAID, "partition": "2026-02"})
    found = look(root, ledger, LATER)
    assert [bool(one.kept_because) for one in found.values()] == [False, True]
    first = found["yearly/private_records/2026-01.parquet"]
    assert first.copy.size == len(path.read_bytes())
    assert abs(first.copy.written - NOW) < timedelta(hours=1)
    said = json.dumps(first.to_dict())
    assert "SENTINEL" not in said
    assert json.loads(said)["removable"] is True


def test_a_folder_of_the_command_line(tmp_path, ledger, release):
    folder = tmp_path / "out"
    restricted = folder / "restricted"
    restricted.mkdir(parents=True)
    for name in ("errors.json", "report.html", "row_limit.key"):
        (restricted / name).write_text("x")
    (folder / "synthetic.csv").write_text("x")
    key = {"dataset": "people", "release": "yearly", "edition": "1", "specification": "x"}
    (folder / "release.json").write_text(json.dumps({"key": key, "retention_days": 0}))
    found = {one.name: one for one in copies_in_folder(folder)}
    assert {name: one.kind for name, one in found.items()} == {
        "restricted/errors.json": "statistics",
        "restricted/report.html": "statistics",
        "restricted/row_limit.key": "other",
    }
    assert all(
        "has not ended" in one.kept_because
        for one in judged([found["restricted/errors.json"]], ledger, LATER)
    )
    release.close()
    errors, _, rows = judged(found.values(), ledger, LATER)
    assert errors.is_due(LATER)
    assert rows.kept_because
    (folder / "release.json").write_text(json.dumps({"key": None}))
    first, *_ = judged(copies_in_folder(folder), None, LATER)
    assert (first.copy.release, first.copy.research, first.due) == ("out", True, None)


@pytest.mark.parametrize("content", [None, "no json", "[]", '{"noise": "exact"}', '{"key": 3}'])
def test_a_folder_that_holds_no_release(tmp_path, content):
    if content is not None:
        (tmp_path / "release.json").write_text(content)
    with pytest.raises(InputError, match=r"no release\.json"):
        copies_in_folder(tmp_path)


def test_a_root_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no folder"):
        copies_in_store(tmp_path / "absent")


def test_times_are_in_utc(tmp_path):
    path = table(tmp_path / "private", "yearly/private_records.parquet", SAID)
    os.utime(path, (0, 0))
    (one,) = copies_in_store(tmp_path / "private")
    assert one.written == datetime(1970, 1, 1, tzinfo=UTC)

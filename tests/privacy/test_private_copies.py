"""Private copies: how they are known, and that nothing goes that a release still needs."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from upath import UPath

from jam_dagster.errors import BudgetError, InputError
from jam_dagster.privacy import Ledger, ReleaseKey
from jam_dagster.privacy.private_copies import (
    KEPT_DAYS,
    Judged,
    copies_in_folder,
    copies_in_store,
    failure_of,
    judged,
    remove,
)

NOW = datetime.now(UTC)
SHARES = {"mechanism": 0.001, "evaluation": 0.0001}
SAID = {"dataset": "people", "release": "yearly", "partition": "", "edition": "1"}


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


def errors_of(folder: Path, said: dict | None = SAID) -> Path:
    """Leave exact errors in the folder of a command-line release."""
    (folder / "restricted").mkdir(parents=True)
    (folder / "release.json").write_text(json.dumps({"key": said}))
    path = folder / "restricted" / "errors.json"
    path.write_text("SENTINEL")
    return path


def look(folder: Path, ledger: Ledger | None, now: datetime = NOW) -> Judged:
    (one,) = judged(copies_in_folder(folder), ledger, now)
    return one


LATER = NOW + timedelta(days=KEPT_DAYS + 1)


def test_a_copy_is_needed_until_its_release_has_ended_and_is_due_later(tmp_path, ledger, release):
    path = errors_of(tmp_path)
    one = look(tmp_path, ledger, LATER)
    assert (one.copy.kind, one.copy.dataset, one.copy.release) == ("statistics", "people", "yearly")
    assert "has not ended" in one.kept_because
    release.account("mechanism").close()
    # One share is still open: its draw is still to be made.
    one = look(tmp_path, ledger, LATER)
    assert "has not ended" in one.kept_because
    with pytest.raises(InputError, match="has not ended"):
        remove(one)
    assert path.exists()

    release.close()

    one = look(tmp_path, ledger)
    assert one.kept_because == ""
    assert not one.is_due(NOW)
    assert one.due is not None
    assert one.is_due(one.due)
    assert one.due - timedelta(days=KEPT_DAYS) >= one.copy.written - timedelta(seconds=1)
    assert remove(one)
    assert not path.exists()
    assert not remove(one)


def test_without_its_ledger_a_copy_stays(ledger, tmp_path):
    errors_of(tmp_path)
    assert "only its ledger knows" in look(tmp_path, None, LATER).kept_because
    assert "knows no such release" in look(tmp_path, ledger, LATER).kept_because
    with pytest.raises(BudgetError, match="no ledger"):
        look(tmp_path, Ledger(tmp_path / "absent.db"), LATER)
    moved = Ledger(ledger.location)
    moved.move(tmp_path / "new.db")
    with pytest.raises(BudgetError, match="has moved to"):
        look(tmp_path, moved, LATER)


@pytest.mark.parametrize(
    "other",
    [{"dataset": "firms"}, {"release": "monthly"}, {"partition": "2026"}, {"edition": "2"}],
)
def test_the_end_of_another_release_is_not_its_own(tmp_path, ledger, release, other):
    release.close()
    errors_of(tmp_path, {**SAID, **other})
    assert "knows no such release" in look(tmp_path, ledger, LATER).kept_because


def test_another_specification_of_the_same_release_may_still_need_it(tmp_path, ledger, release):
    release.close()
    errors_of(tmp_path)
    ledger.open_release(ReleaseKey("people", "yearly", "y"), SHARES)
    assert "has not ended" in look(tmp_path, ledger, LATER).kept_because


def test_a_partition_has_an_end_of_its_own(tmp_path, ledger):
    ledger.open_release(ReleaseKey("people", "yearly", "x", "2026-01"), SHARES).close()
    errors_of(tmp_path, {**SAID, "partition": "2026-01"})
    one = look(tmp_path, ledger, LATER)
    assert one.copy.size == len("SENTINEL")
    said = json.dumps(one.to_dict())
    assert "SENTINEL" not in said
    assert json.loads(said)["removable"] is True


def test_research_needs_no_ledger(tmp_path):
    errors_of(tmp_path, None)
    one = look(tmp_path, None, LATER)
    assert (one.copy.release, one.copy.research) == (tmp_path.name, True)
    assert one.is_due(LATER)
    assert not one.is_due(NOW)


def test_what_is_not_known_is_listed_and_stays(root):
    (root / "yearly" / "row_limit").mkdir(parents=True)
    names = ["secret", "yearly/broken.parquet", "yearly/row_limit/abc.key", "yearly/said.txt"]
    for name in names:
        (root / name).write_bytes(b"s" * 32)
    found = judged(copies_in_store(root), None, LATER)
    assert sorted(one.copy.name for one in found) == names
    for one in found:
        assert one.copy.kind == "other"
        with pytest.raises(InputError, match="not a private copy"):
            remove(one)
        assert one.copy.path.exists()


def test_the_cause_of_a_failure_goes_when_its_time_is_over(root):
    (root / "yearly" / "failures").mkdir(parents=True)
    path = root / "yearly" / "failures" / "a.txt"
    path.write_bytes(failure_of(SAID) + b"SENTINEL")
    (one,) = judged(copies_in_store(root), None, LATER)
    assert (one.copy.kind, one.copy.dataset, one.copy.edition) == ("failure", "people", "1")
    assert abs(one.copy.written - NOW) < timedelta(hours=1)
    assert one.is_due(LATER)
    assert remove(one)
    assert not path.exists()


def test_what_a_killed_writer_left_goes_after_a_day(root, ledger):
    (root / "yearly").mkdir(parents=True)
    name = f"yearly/.workload_error.json.{uuid4().hex}"
    (root / name).write_bytes(b"half a file")
    (one,) = judged(copies_in_store(root), ledger, NOW)
    assert (one.copy.kind, one.kept_because) == ("unfinished", "a process may be writing it")
    (one,) = judged(copies_in_store(root), None, NOW + timedelta(days=2))
    assert not one.is_due(NOW + timedelta(days=2))
    assert one.is_due(LATER)
    assert remove(one)


def test_a_copy_that_is_written_meanwhile_stays(tmp_path, ledger, release):
    release.close()
    path = errors_of(tmp_path)
    one = look(tmp_path, ledger, LATER)
    path.write_bytes(path.read_bytes() + b"more")
    assert not remove(one)
    assert path.exists()


def test_links_are_not_followed(tmp_path, ledger, release):
    release.close()
    elsewhere = errors_of(tmp_path / "elsewhere")
    folder = tmp_path / "out"
    errors_of(folder).unlink()
    (folder / "restricted" / "errors.json").symlink_to(elsewhere)
    (folder / "restricted" / "more").symlink_to(elsewhere.parent)
    assert look(folder, ledger, LATER).copy.kind == "other"


def test_what_lies_in_a_folder_of_the_command_line(tmp_path):
    errors_of(tmp_path)
    for name in ("report.html", "row_limit.key"):
        (tmp_path / "restricted" / name).write_text("x")
    (tmp_path / "synthetic.csv").write_text("x")
    assert {one.name: one.kind for one in copies_in_folder(tmp_path)} == {
        "restricted/errors.json": "statistics",
        "restricted/report.html": "statistics",
        "restricted/row_limit.key": "other",
    }


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
    os.utime(errors_of(tmp_path), (0, 0))
    (one,) = copies_in_folder(tmp_path)
    assert one.written == datetime(1970, 1, 1, tzinfo=UTC)

"""One ledger, one journal: by whichever name its file is reached, ten releases fit and no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jam_dagster.errors import BudgetError
from jam_dagster.privacy import Ledger, ReleaseId
from jam_dagster.privacy.ledger import file_locks
from jam_dagster.privacy.ledger import sqlite as ledger_file

RELEASE_ID = ReleaseId("people", "yearly", "x")
# Whole units, so that ten fit exactly.
SHARE = 1e-3

SPEND = """
import sys
from jam_dagster.errors import BudgetError
from jam_dagster.privacy import Ledger, ReleaseId
ledger, fitted = Ledger(sys.argv[1]), 0
print("ready", flush=True)
sys.stdin.readline()
for number in range(12):
    try:
        release = ledger.open_release(ReleaseId("people", sys.argv[2], str(number)), {"a": 1e-3})
        release.account("a").charge("draw", 9e-4)
        fitted += 1
    except BudgetError as error:
        said = str(error)
print(fitted, said, flush=True)
"""


@pytest.fixture
def ledger(path: Path) -> Ledger:
    """A ledger whose budget has room for ten shares and not for eleven."""
    ledger = Ledger(path)
    # rho grows as the square of epsilon, nearly.
    ledger.grant("people", epsilon=0.83, delta=1e-9)
    assert 10 * SHARE < ledger.balance("people").remaining < 11 * SHARE
    return ledger


def at_once(script: str, *arguments: tuple[str, ...]) -> list[str]:
    """Run a script in processes that go on together once all are ready; return what each said."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for given in arguments
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return said


def spent_by_two(first: Path, second: Path) -> list[tuple[int, str]]:
    """Return how many releases fit for each of two processes at once, and what refused the rest."""
    found = at_once(SPEND, (str(first), "one"), (str(second), "two"))
    return [(int(count), said) for count, _, said in (one.partition(" ") for one in found)]


@pytest.mark.slow
def test_by_two_hard_links_no_release_fits_until_one_is_gone(ledger, path):
    other = path.with_name("other.db")
    os.link(path, other)
    found = spent_by_two(path, other)
    assert [count for count, _ in found] == [0, 0]
    for _, said in found:
        assert "2 names (hard links)" in said
        assert f"find FOLDER -xdev -samefile {path.parent}" in said
    assert sorted(file.name for file in path.parent.iterdir()) == ["ledger.db", "other.db"]
    other.unlink()
    found = spent_by_two(path, path)
    assert sum(count for count, _ in found) == 10, found
    ledger.verify()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_by_a_symbolic_link_ten_releases_fit_and_no_more(ledger, path, tmp_path, kind):
    elsewhere = tmp_path / "elsewhere"
    if kind == "file":
        elsewhere.mkdir()
        (elsewhere / "linked.db").symlink_to(path)
        other = elsewhere / "linked.db"
    else:
        elsewhere.symlink_to(path.parent)
        other = elsewhere / path.name
    found = spent_by_two(path, other)
    assert sum(count for count, _ in found) == 10, found
    assert ledger.verify().events == Ledger(other).verify().events


def test_every_transaction_looks_for_other_names(ledger, path):
    release = ledger.open_release(RELEASE_ID, {"a": SHARE})
    os.link(path, path.with_name("other.db"))
    for attempt in (
        lambda: release.account("a").charge("draw", SHARE),
        lambda: release.close(),
        lambda: ledger.balance("people"),
        lambda: ledger.grant("people", epsilon=9.0, delta=1e-9),
        ledger.upgrade,
        ledger.verify,
        ledger.check_writable,
        lambda: ledger.claim(RELEASE_ID).__enter__(),
    ):
        with pytest.raises(BudgetError, match=r"2 names \(hard links\).*remove the other"):
            attempt()
    path.with_name("other.db").unlink()
    assert release.account("a").spent == 0.0


def test_a_name_that_leads_nowhere_is_no_ledger(tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(BudgetError, match="there is no ledger at"):
        Ledger(tmp_path / "file" / "ledger.db").balance("people")
    (tmp_path / "loop.db").symlink_to(tmp_path / "loop.db")
    with pytest.raises(BudgetError, match=r"loop\.db cannot be opened"):
        Ledger(tmp_path / "loop.db").balance("people")


def test_claims_hold_the_file_and_not_its_name(ledger, path, monkeypatch):
    """A name that comes later meets the lock of the run that began under the former one."""
    monkeypatch.setattr(ledger_file, "CLAIM_SECONDS", 0.2)
    with ledger.claim(RELEASE_ID):
        path.rename(path.with_name("moved.db"))
        moved = Ledger(path.with_name("moved.db"))
        with pytest.raises(BudgetError, match="another run is drawing"):
            moved.claim(RELEASE_ID).__enter__()
        with moved.claim(ReleaseId("people", "another", "x")):
            pass
    with moved.claim(RELEASE_ID):
        pass


OPEN = """
import sys
from jam_dagster.errors import BudgetError
from jam_dagster.privacy import Ledger, ReleaseId
from jam_dagster.privacy.ledger import sqlite as ledger_file
ledger_file.BUSY_SECONDS = 0.2
try:
    Ledger(sys.argv[1]).open_release(ReleaseId("people", "yearly", "x"), {"a": 1e-3})
except BudgetError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_writer_by_a_name_that_came_later_waits_for_the_one_before(ledger, path):
    """The log of a transaction goes by the file's name; the lock of writers does not."""
    moved = path.with_name("moved.db")

    def opened() -> str:
        done = subprocess.run(
            [sys.executable, "-c", OPEN, str(moved)], capture_output=True, text=True, check=True
        )
        return done.stdout

    said = []

    def moved_meanwhile() -> None:
        with ledger._backend.writing():
            path.rename(moved)
            said.append(opened())

    with pytest.raises(BudgetError, match="or removed"):
        moved_meanwhile()
    assert "held by another process" in said[0]
    assert opened() == ""
    assert Ledger(moved).verify().events == 2


def test_an_entry_in_a_ledger_that_was_replaced_meanwhile_is_not_believed(ledger, path):
    release = ledger.open_release(RELEASE_ID, {"a": SHARE})
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())
    copy.chmod(0o600)

    def written_while_replaced():
        with ledger._backend.writing():
            copy.rename(path)

    with pytest.raises(BudgetError, match="was replaced by another file"):
        written_while_replaced()
    assert release.account("a").spent == 0.0


def test_a_run_goes_on_with_no_other_ledger_than_it_began_with(ledger, path):
    release = ledger.open_release(RELEASE_ID, {"a": SHARE})
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())
    with ledger.claim(RELEASE_ID):
        release.account("a").charge("first", SHARE / 4)
        copy.rename(path)
        with pytest.raises(BudgetError, match="was replaced by another file while a run"):
            release.account("a").charge("second", SHARE / 4)
    # The next run takes the ledger as it finds it.
    resumed = ledger.open_release(RELEASE_ID, {"a": SHARE})
    resumed.account("a").charge("second", SHARE / 4)


def test_no_lock_is_lost_when_another_one_ends(ledger, path):
    """A process that closes any descriptor of a file loses all of SQLite's locks on it."""
    probe = (
        "import fcntl, sys\n"
        "with open(sys.argv[1], 'r+b') as file:\n"
        "    try:\n"
        "        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)\n"
        "    except OSError:\n"
        "        print('held')\n"
    )

    def held() -> str:
        done = subprocess.run(
            [sys.executable, "-c", probe, str(path)], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    with ledger._backend.reading() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM events")
        assert held() == "held"
        with ledger.claim(RELEASE_ID):
            pass
        ledger.open_release(RELEASE_ID, {"a": SHARE})
        assert held() == "held"
    assert held() == ""


def test_descriptors_do_not_pile_up(ledger, path):
    for number in range(5):
        with ledger.claim(RELEASE_ID), ledger._backend.reading():
            ledger.open_release(ReleaseId("people", "yearly", str(number)), {"a": SHARE})
    opened = [
        os.readlink(link) for link in Path("/proc/self/fd").iterdir() if os.path.lexists(link)
    ]
    assert str(path) not in opened
    assert not file_locks._uses


def test_while_it_is_made_a_ledger_has_one_name(path, monkeypatch):
    counts = []
    real = ledger_file.sync_folder

    def look(folder: Path) -> None:
        counts.extend(file.stat().st_nlink for file in folder.iterdir())
        real(folder)

    monkeypatch.setattr(ledger_file, "sync_folder", look)
    Ledger(path).grant("people", epsilon=1.0, delta=1e-9)
    assert counts == [1]


def test_a_link_to_where_no_ledger_is_yet_makes_it_there(path, tmp_path):
    target = tmp_path / "disk" / "ledger.db"
    target.parent.mkdir()
    path.symlink_to(target)
    Ledger(path).grant("people", epsilon=1.0, delta=1e-9)
    assert path.is_symlink()
    assert Ledger(target).datasets() == ("people",)


MOUNTED = """
import subprocess, sys
from jam_dagster.errors import BudgetError
from jam_dagster.privacy import Ledger
done = subprocess.run(["mount", "--bind", *sys.argv[1:3]], capture_output=True, text=True)
if done.returncode:
    sys.exit(77)
for name in (sys.argv[2], sys.argv[3]):
    try:
        print(Ledger(name).datasets())
    except BudgetError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_file_that_is_mounted_by_itself_is_refused(ledger, path, tmp_path):
    """A container that is given the file alone has a log of its own."""
    folder = tmp_path / "a mount"
    folder.mkdir()
    (folder / "ledger.db").touch()
    link = tmp_path / "link.db"
    link.symlink_to(folder / "ledger.db")
    done = subprocess.run(
        [
            *("unshare", "--mount", "--map-root-user", sys.executable, "-c", MOUNTED),
            *(str(path), str(folder / "ledger.db"), str(link)),
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode in (1, 77):
        pytest.skip("this machine lets tests mount nothing")
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    assert all("is mounted by itself" in line and "its folder" in line for line in lines)


def test_a_mounted_folder_is_as_good_as_the_folder(monkeypatch, ledger, path, tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"36 35 98:0 / {path.parent} rw - ext4 /dev/root rw\n")
    monkeypatch.setattr(ledger_file, "_MOUNTS", mounts)
    assert ledger.datasets() == ("people",)
    escaped = str(path).replace(" ", "\\040")
    mounts.write_text(f"36 35 98:0 / {escaped} rw - ext4 /dev/root rw\n")
    with pytest.raises(BudgetError, match="is mounted by itself"):
        ledger.datasets()

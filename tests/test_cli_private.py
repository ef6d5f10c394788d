"""`jam-dagster private`: what lies in the stores, and what goes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jam_dagster.privacy import Ledger, ReleaseKey
from jam_dagster.privacy.private_copies import failure_of
from tests.cli_bench import RELEASE, Run, lines, synthesize

LIST = ("private", "list", "--ledger", "ledger.db")
REMOVE = ("private", "remove", "--ledger", "ledger.db")
EXACT = ("--epsilon", "0.4", "--evaluate", "exact")


def copy_of(release: str, *, ended: bool = True) -> Path:
    key = ReleaseKey("people", release, "x")
    opened = Ledger("ledger.db").open_release(key, {"mechanism": 0.001})
    if ended:
        opened.close()
    said = {"dataset": "people", "release": release, "edition": "1"}
    path = Path(release) / "restricted" / "errors.json"
    path.parent.mkdir(parents=True)
    path.write_text("SENTINEL")
    (Path(release) / "release.json").write_text(json.dumps({"key": said}))
    return path


def out(*releases: str) -> tuple[str, ...]:
    return tuple(word for release in releases for word in ("--out", release))


def test_private_copies_are_listed(run: Run) -> None:
    ended, needed = copy_of("yearly"), copy_of("monthly", ended=False)
    Path("private").mkdir()
    (Path("private") / "other.key").write_bytes(b"k")
    where = ("--private", "private", *out("yearly", "monthly"))

    shown = run(*LIST, *where)

    assert shown.exit_code == 0, shown.output
    rows = {line.split("  ")[0]: line for line in shown.stdout.splitlines()}
    assert "yearly, edition 1" in rows[str(ended)]
    assert "due at" in rows[str(ended)]
    assert "needs it to resume" in rows[str(needed)]
    assert "not a private copy" in rows["private/other.key"]
    assert "3 files" in shown.stderr
    assert "SENTINEL" not in shown.output
    found = json.loads(run(*LIST, *where, "--json").stdout)["files"]
    assert [one["removable"] for one in found] == [False, True, False]


def test_what_no_release_needs_goes_when_that_is_confirmed(run: Run) -> None:
    ended, needed = copy_of("yearly"), copy_of("daily", ended=False)
    where = out("yearly", "daily")
    young = run(*REMOVE, *where, "--due")
    assert young.exit_code == 0, young.output
    assert young.stdout == ""
    assert "Nothing is to go" in young.stderr

    shown = run(*REMOVE, *where)

    assert shown.exit_code == 0, shown.output
    assert str(ended) in shown.stdout
    assert len(shown.stdout.splitlines()) == 1
    assert "1 files would go; give --yes" in shown.stderr
    assert ended.exists()

    done = run(*REMOVE, *where, "--yes")

    assert done.stdout.strip() == str(ended)
    assert "1 files removed" in done.stderr
    assert f"Kept: {needed}: its release has not ended" in done.stderr
    assert not ended.exists()
    assert needed.exists()


def test_what_is_due_goes(run: Run) -> None:
    # The cause of a failure is as old as its file.
    young, old = (Path("private", "yearly", "failures", f"{name}.txt") for name in "ab")
    young.parent.mkdir(parents=True)
    for path in (young, old):
        path.write_bytes(failure_of({"dataset": "people", "release": "yearly"}))
    os.utime(old, (0, 0))

    done = run("private", "remove", "--private", "private", "--due", "--yes")

    assert done.stdout.strip() == str(old)
    assert young.exists()


@pytest.mark.slow
def test_exact_errors_of_the_command_line_go_and_the_release_is_free_again(run: Run) -> None:
    made = run(*synthesize(*RELEASE, *EXACT))
    assert made.exit_code == 0, made.output
    errors = Path("out/restricted/errors.json")
    assert errors.exists()
    spent = Ledger("ledger.db").balance("people").spent

    removed = run(*REMOVE, "--out", "out", "--yes")

    assert removed.exit_code == 0, removed.output
    assert Path(removed.stdout.strip()) == errors
    assert not errors.exists()
    again = run(*synthesize(*RELEASE, *EXACT))
    assert again.exit_code == 0, again.output
    assert errors.exists()
    assert Ledger("ledger.db").balance("people").spent == spent
    assert run("certificate", "verify", "out", "--ledger", "ledger.db").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("list",), "--private ROOT, or --out DIR"),
        (("list", "--private", "absent"), "no folder"),
        (("list", "--out", "."), "no release.json"),
        (("list", "--private", "private", "--ledger", "absent.db"), "no ledger"),
    ],
)
def test_what_cannot_be_looked_for(run: Run, given: tuple[str, ...], says: str) -> None:
    Path("private").mkdir()
    result = run("private", *given)
    assert result.exit_code == 2
    assert says in lines(result)[0]

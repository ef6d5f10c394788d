"""`jam-dagster private`: what lies in the stores, and what goes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jam_dagster.privacy import Ledger
from jam_dagster.privacy.private_copies import failure_of
from tests.cli_bench import RELEASE, Run, lines, synthesize

EXACT = ("--epsilon", "0.4", "--evaluate", "exact")


@pytest.fixture
def store() -> list[Path]:
    """A store with two causes of failures, a young and an old one, and a key."""
    young, old = (Path("private", "yearly", "failures", f"{name}.txt") for name in "ab")
    young.parent.mkdir(parents=True)
    key = {"dataset": "people", "release": "yearly", "edition": "1"}
    for path in (young, old):
        path.write_bytes(failure_of(key) + b"SENTINEL")
    os.utime(old, (0, 0))
    other = Path("private", "other.key")
    other.write_bytes(b"k")
    return [young, old, other]


def test_private_copies_are_listed(run: Run, store: list[Path]) -> None:
    shown = run("private", "list", "--private", "private")

    assert shown.exit_code == 0, shown.output
    rows = {line.split("  ")[0]: line for line in shown.stdout.splitlines()}
    assert "yearly, edition 1" in rows[str(store[0])]
    assert "due at 1970-01-31 00:00 UTC" in rows[str(store[1])]
    assert "not a private copy" in rows[str(store[2])]
    assert "3 files" in shown.stderr
    assert "SENTINEL" not in shown.output
    found = json.loads(run("private", "list", "--private", "private", "--json").stdout)["files"]
    assert [one["kind"] for one in found] == ["other", "failure", "failure"]


def test_what_is_due_goes_when_that_is_confirmed(run: Run, store: list[Path]) -> None:
    young, old, other = store
    remove = ("private", "remove", "--private", "private")

    shown = run(*remove, "--due")
    assert shown.exit_code == 0, shown.output
    assert str(old) in shown.stdout
    assert len(shown.stdout.splitlines()) == 1
    assert "1 files would go; give --yes" in shown.stderr
    assert old.exists()

    done = run(*remove, "--due", "--yes")
    assert done.stdout.strip() == str(old)
    assert "1 files removed" in done.stderr
    assert "Nothing is to go" in run(*remove, "--due").stderr
    # Whatever its age.
    assert run(*remove, "--yes").stdout.strip() == str(young)
    assert other.exists()


@pytest.mark.slow
def test_exact_errors_of_the_command_line_go_and_the_release_is_free_again(run: Run) -> None:
    made = run(*synthesize(*RELEASE, *EXACT))
    assert made.exit_code == 0, made.output
    errors = Path("out/restricted/errors.json")
    assert errors.exists()
    spent = Ledger("ledger.db").balance("people").spent

    removed = run("private", "remove", "--out", "out", "--yes")

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
    ],
)
def test_what_cannot_be_looked_for(run: Run, given: tuple[str, ...], says: str) -> None:
    Path("private").mkdir()
    result = run("private", *given)
    assert result.exit_code == 2
    assert says in lines(result)[0]

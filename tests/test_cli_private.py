"""`jam-dagster private`: what lies in the stores, and what goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jam_dagster.privacy import Ledger, ReleaseKey
from tests.cli_bench import RELEASE, Run, lines, synthesize

LIST = ("private", "list", "--ledger", "ledger.db")
REMOVE = ("private", "remove", "--ledger", "ledger.db")
EXACT = ("--epsilon", "0.4", "--evaluate", "exact", "--retention-days", "0")


def copy_of(release: str, *, days: int | None = 0, ended: bool = True) -> Path:
    key = ReleaseKey("people", release, "x")
    opened = Ledger("ledger.db").open_release(key, {"mechanism": 0.001})
    if ended:
        opened.close()
    said = {"dataset": "people", "release": release, "edition": "1"}
    path = Path(release) / "restricted" / "errors.json"
    path.parent.mkdir(parents=True)
    path.write_text("SENTINEL")
    described = {"key": said, "retention_days": days}
    (Path(release) / "release.json").write_text(json.dumps(described))
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
    assert "to go from" in rows[str(ended)]
    assert "needs it to resume" in rows[str(needed)]
    assert "no private copy" in rows["private/other.key"]
    assert "3 files" in shown.stderr
    assert "SENTINEL" not in shown.output
    found = json.loads(run(*LIST, *where, "--json").stdout)["files"]
    assert [one["removable"] for one in found] == [False, True, False]


def test_what_is_due_goes_when_that_is_confirmed(run: Run) -> None:
    due, kept = copy_of("yearly"), copy_of("monthly", days=30)
    needed, stated = copy_of("daily", ended=False), copy_of("weekly", days=None)
    where = out("yearly", "monthly", "daily", "weekly")

    shown = run(*REMOVE, *where, "--due")

    assert shown.exit_code == 0, shown.output
    assert str(due) in shown.stdout
    assert len(shown.stdout.splitlines()) == 1
    assert "1 files would go; give --yes" in shown.stderr
    assert due.exists()

    done = run(*REMOVE, *where, "--due", "--yes")

    assert done.stdout.strip() == str(due)
    assert "1 files removed" in done.stderr
    assert [path.exists() for path in (due, kept, needed, stated)] == [False, True, True, True]
    assert "Nothing is to go" in run(*REMOVE, *where, "--due").stderr


@pytest.mark.slow
def test_one_release_goes_before_its_time_and_never_what_is_needed(run: Run) -> None:
    kept, needed = copy_of("monthly", days=30), copy_of("daily", ended=False)
    options = (*out("monthly", "daily"), "--yes")

    assert run(*REMOVE, *options, "--release", "monthly", "--edition", "2").stdout == ""
    assert kept.exists()
    assert run(*REMOVE, *options, "--release", "monthly").stdout.strip() == str(kept)
    refused = run(*REMOVE, *options, "--release", "daily")

    assert refused.exit_code == 0
    assert f"Kept: {needed}: its release has not ended" in refused.stderr
    assert needed.exists()


@pytest.mark.slow
def test_exact_errors_of_the_command_line_go_and_the_release_is_free_again(run: Run) -> None:
    made = run(*synthesize(*RELEASE, *EXACT))
    assert made.exit_code == 0, made.output
    errors = Path("out/restricted/errors.json")
    assert errors.exists()
    spent = Ledger("ledger.db").balance("people").spent

    removed = run(*REMOVE, "--out", "out", "--due", "--yes")

    assert removed.exit_code == 0, removed.output
    assert Path(removed.stdout.strip()) == errors
    assert not errors.exists()
    again = run(*synthesize(*RELEASE, *EXACT))
    assert again.exit_code == 0, again.output
    assert errors.exists()
    assert Ledger("ledger.db").balance("people").spent == spent
    assert run("certificate", "verify", "out", "--ledger", "ledger.db").exit_code == 0


@pytest.mark.slow
def test_the_time_is_no_part_of_the_specification(run: Run) -> None:
    assert run(*synthesize(*RELEASE, *EXACT)).exit_code == 0
    again = run(*synthesize(*RELEASE, *EXACT[:-1], "7"))
    assert again.exit_code == 0, again.output
    assert len(Ledger("ledger.db").releases()) == 1
    assert json.loads(Path("out/release.json").read_text())["retention_days"] == 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("list",), "--private ROOT, or --out DIR"),
        (("list", "--private", "absent"), "no folder"),
        (("list", "--out", "."), "no release.json"),
        (("remove", "--private", "private"), "--due, or --release NAME"),
        (("remove", "--private", "private", "--due", "--release", "x"), "--due, or --release"),
        (("remove", "--private", "private", "--due", "--edition", "1"), "go with --release"),
        (("list", "--private", "private", "--ledger", "absent.db"), "no ledger"),
    ],
)
def test_what_cannot_be_looked_for(run: Run, given: tuple[str, ...], says: str) -> None:
    Path("private").mkdir()
    result = run("private", *given)
    assert result.exit_code == 2
    assert says in lines(result)[0]

"""`jam-dagster synthesize`: what it makes, and what it does to a ledger."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.certificates import Certificate, verify
from jam_dagster.mechanisms import MECHANISMS
from jam_dagster.mechanisms.loops import rows
from jam_dagster.privacy import DirectoryStore, Ledger
from jam_dagster.release.engine import Engine
from jam_dagster.tables import EncodedTable, decode
from tests.cli_bench import (
    KEYS,
    NOISY,
    PEOPLE,
    RELEASE,
    RESEARCH,
    Run,
    run_process,
    synthesize,
)
from tests.full_disk import on_a_full_disk
from tests.tiers import slow

# --- research


def test_research_prints_one_object_with_the_promised_keys(run: Run) -> None:
    result = run(*synthesize(*RESEARCH, "--json"))

    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    made = json.loads(result.stdout)
    assert list(made) == [*KEYS, "output"]
    assert list(made["workload_error"]) == ["synthetic", "public", "independent", "prior"]
    for error in made["workload_error"].values():
        assert list(error) == ["mean", "max", "pairs", "association", "correlation"]
        assert 0 <= error["mean"] <= error["max"] <= 2
    assert next(iter(made["seconds"])) == "total"
    timed = {name: seconds for name, seconds in made["seconds"].items() if "." not in name}
    stages = sum(timed.values()) - timed["total"]
    parts = sum(seconds for name, seconds in made["seconds"].items() if "." in name)
    assert 0 < parts <= timed["mechanism"] + 0.01
    assert 0.5 * made["seconds"]["total"] < stages <= made["seconds"]["total"] + 0.01
    assert 0 < made["sampling_error"] < 0.5
    assert made["peak_memory_mb"] > 50
    assert made["rho"]["budget"] == pytest.approx(0.0149730577, abs=1e-9)
    assert 0 < made["rho"]["spent"] <= made["rho"]["budget"]
    assert list(made["picks"]) == ["private", "public"]
    assert sum(made["picks"].values()) == 2
    assert made["rows"] == 200
    assert made["releasable"] is False
    assert made["output"] == str(Path("out").resolve())
    table = pd.read_csv("out/synthetic.csv")
    assert list(table.columns) == list(PEOPLE)
    assert len(table) == 200
    assert all(table[name].between(0, size - 1).all() for name, size in PEOPLE.items())
    errors = json.loads(Path("out/restricted/errors.json").read_text())
    assert errors["synthetic"]["max"] > 0
    assert Path("out/restricted").stat().st_mode & 0o777 == 0o700
    assert Path("out/restricted/errors.json").stat().st_mode & 0o777 == 0o600
    assert not Path("out/errors.json").exists()


@pytest.mark.slow
def test_research_loads_nothing_that_it_does_not_use(run: Run) -> None:
    # Every run is a process of its own, and each of these takes from a tenth of a second to
    # several: a whole small run takes less than one.
    unused = ["jax", "mbi", "opendp", "sqlalchemy", "great_expectations", "altair", "jinja2"]
    code = (
        "import sys; from jam_dagster.cli import app; app(sys.argv[1:], standalone_mode=False); "
        f"print([name for name in {unused} if name in sys.modules])"
    )

    ran = run_process(*synthesize(*RESEARCH, "--json"), program=("-c", code))

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "[]"


def test_the_summary_is_for_people(run: Run) -> None:
    result = run(*synthesize(*RESEARCH))

    assert "epsilon 1 at delta 1e-09" in result.stdout
    # Before any of them is printed.
    assert result.stdout.startswith("Restricted          the errors below are exact statistics")
    assert "\nVerdict " in result.stdout
    assert "rows of the public prior, which cost nothing" in result.stdout
    assert " the public table" in result.stdout
    assert "the synthetic table may not leave" in result.stdout
    assert "Checks" not in result.stdout
    # One line a round where there is no terminal to draw a bar on.
    assert "round 2/2" in result.stderr


# --- a release


def test_a_release_is_charged_and_may_leave(released: Run) -> None:
    made = json.loads(Path("made.json").read_text())

    assert made["releasable"] is True
    assert made["workload_error"]["independent"] is None
    assert made["workload_error"]["synthetic"]["max"] is None
    assert made["workload_error"]["public"]["max"] is None
    balance = Ledger("ledger.db").balance("people")
    assert balance.spent == pytest.approx(made["rho"]["spent"], rel=1e-12)
    # 5% was kept for the evaluation, and spent on it.
    assert balance.spent > 0.05 * made["rho"]["budget"]
    assert balance.reserved == 0
    assert not Path("out/restricted").exists()
    errors = json.loads(Path("out/errors.json").read_text())
    assert errors["mode"] == "private"
    # Of three tables three means each: sensitivity 6 / n, and rho = sensitivity^2 / 2 sigma^2.
    assert errors["rho"] == pytest.approx(0.05 * made["rho"]["budget"])
    sigma = 6 / made["rows"] / np.sqrt(2 * errors["rho"])
    assert errors["sigma"] == pytest.approx(sigma, rel=1e-3)
    assert errors["synthetic"] == made["workload_error"]["synthetic"]


@pytest.mark.slow
def test_the_summary_of_a_release_says_what_may_leave(released: Run) -> None:
    result = released(*synthesize(*RELEASE, *NOISY))

    assert result.stdout.count("the synthetic table may leave") == 1
    assert "restricted" not in result.stdout
    assert re.search(r"^Verdict +(\w+ is known|No clear|Better|Worse)", result.stdout, re.M)


@pytest.mark.slow
def test_a_release_is_checked(run: Run) -> None:
    result = run(*synthesize(*RELEASE, "--report", "--checks"))

    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("Checks")]
    found = re.match(r"Checks +(\d+) of (\d+) passed(?:, (\d+) not measured)?: (.+)", line)
    assert found is not None
    # Columns, rows, and of each attribute its dtype, its values, its nulls and its marginal.
    assert int(found[1]) + int(found[3] or 0) == int(found[2]) == 2 + 4 * len(PEOPLE)
    assert Path(found[4]) == Path("out/checks.html").resolve()
    # The page of the checks tells the same number.
    assert f"{found[1]} expectations are met" in Path(found[4]).read_text()
    # One suite more where a marginal was measured on the private table.
    assert len(json.loads(Path("out/checks.json").read_text())) in (2, 3)
    certified = Certificate.load(Path("out"))
    Path("out/checks.json").write_text("[]")
    failed = [one.name for one in verify(Path("out")) if not one.passed]
    assert failed == ["file: validations"]
    # What is made again is the same to the byte.
    run(*synthesize(*RELEASE, "--report", "--checks"))
    assert Certificate.load(Path("out")).files == certified.files
    page = Path("out/report.html").read_text()
    assert "No checks were run" not in page
    assert "200 rows, 200 expected" in page


@pytest.mark.slow
def test_a_failed_check_fails_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(synthetic: EncodedTable, rng: np.random.Generator) -> pd.DataFrame:
        return decode(synthetic, rng).head(150)

    monkeypatch.setattr(rows, "decode", cut)

    result = run(*synthesize(*RESEARCH, "--checks"))

    assert result.exit_code == 0, result.output
    found = re.search(r"Checks +(\d+) of (\d+) passed(?:, (\d+) not measured)?", result.stdout)
    assert found is not None
    assert int(found[1]) == int(found[2]) - int(found[3] or 0) - 1


@pytest.mark.slow
def test_a_release_is_reported_in_two_editions(run: Run) -> None:
    result = run(*synthesize(*RELEASE, "--report", "--evaluation-mode", "exact"))

    assert result.exit_code == 0, result.output
    assert f"Report{' ' * 14}{Path('out/report.html').resolve()}\n" in result.stdout
    assert f"Restricted report   {Path('out/restricted/report.html').resolve()}\n" in result.stdout
    page, restricted = (
        Path("out", name).read_text() for name in ("report.html", "restricted/report.html")
    )
    assert not Path("out/errors.json").exists()
    errors = json.loads(Path("out/restricted/errors.json").read_text())
    mean = f"{errors['synthetic']['mean']:.3f}"[1:]
    assert mean in restricted
    # A short number may stand in a page by chance, so the page that may leave is held to what it
    # can say without: in mode exact it neither tells errors nor depends on them.
    assert "Mean workload error" in restricted
    assert "Mean error" in restricted
    assert "Mean workload error" not in page
    assert "Mean error" not in page
    section = re.search(r'<section id="error">.*?</section>', page, re.DOTALL)
    assert section is not None
    assert not re.search(r"\d[.]\d|<svg|<table", section.group())
    assert run(*synthesize(*RELEASE, "--report", "--evaluation-mode", "off")).exit_code == 0
    assert not Path("out/errors.json").exists()
    made = r"made on \d{4}-\d\d-\d\d \d\d:\d\d"
    unevaluated = Path("out", "report.html").read_text()
    verdicts = (
        "No error was released: it was measured exactly, for readers who may see the private"
        " table.",
        "The error was not measured.",
    )
    assert verdicts[0] in page
    page = page.replace(*verdicts)
    assert re.sub(made, "", unevaluated) == re.sub(made, "", page)
    assert Path("out/restricted/report.html").stat().st_mode & 0o777 == 0o600


def test_a_table_in_chunks_that_was_changed_is_not_certified(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write to the folder, as soon as the table is there."""
    monkeypatch.setattr(rows, "MOST_AT_ONCE", 150)
    monkeypatch.setattr(rows, "CHUNK_ROWS", 100)
    replace = Path.replace

    def raced(path: Path, target: Path) -> Path:
        made = replace(path, target)
        if target.name == "synthetic.parquet":
            pd.read_parquet(target).assign(sex=0).to_parquet(target, row_group_size=100)
        return made

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", raced)
        result = run(*synthesize(*RELEASE, *NOISY))
    assert "is not the file that was made" in " ".join(result.output.split())
    assert "certified" not in [event.kind.value for event in Ledger("ledger.db").events()]
    assert run(*synthesize(*RELEASE, *NOISY)).exit_code == 0
    assert all(one.passed for one in verify(Path("out"), ledger=Ledger("ledger.db")))


@pytest.mark.slow
def test_no_exact_errors_are_left_of_a_release_that_is_not_certified(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify, restricted = Engine.certify, Path("out", "restricted")
    exact = synthesize(*RELEASE, "--report", "--evaluation-mode", "exact")

    def changed(*given: Any, **more: Any) -> Any:
        assert {path.name for path in restricted.glob("*.*")} == {"errors.json", "report.html"}
        given[3]["table"].write_bytes(b"sex")
        return certify(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "certify", changed)
        result = run(*exact)
    assert "is not the file that was made" in " ".join(result.output.split())
    assert list(restricted.glob("*.*")) == []
    assert run(*exact).exit_code == 0
    assert (restricted / "errors.json").exists()


# A repeat reads no private table. What a crash between the last draw and the end of a run leaves
# are the draws alone.
@pytest.mark.slow
@pytest.mark.parametrize(
    "lost",
    [
        *slow(["out/synthetic.csv", "priv.csv"]),
        ["out/synthetic.csv", "out/transcript/transcript.json"],
    ],
)
def test_the_same_release_again_is_free_and_the_same(released: Run, lost: list[str]) -> None:
    kept = ("out/synthetic.csv", "out/certificate.json")
    before, events = [Path(name).read_bytes() for name in kept], Ledger("ledger.db").events()
    first = json.loads(Path("made.json").read_text())
    for name in lost:
        Path(name).unlink()

    result = released(*synthesize(*RELEASE, *NOISY, "--json"))

    assert result.exit_code == 0, result.output
    assert Ledger("ledger.db").events() == events
    assert [Path(name).read_bytes() for name in kept] == before
    second = json.loads(result.stdout)
    for key in ("workload_error", "rho", "picks"):
        assert second[key] == first[key]


@pytest.mark.slow
def test_nothing_is_written_or_removed_through_a_link(released: Run, tmp_path: Path) -> None:
    """Who may write in the folder could have a repeat remove the files of any other."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "notes.txt").write_text("mine")
    for name in ("model", "restricted", "report.html"):
        there = Path("out") / name
        moved = there.rename(tmp_path / f"moved-{name}") if there.exists() else None
        there.symlink_to(elsewhere)
        refused = released(*synthesize(*RELEASE, *NOISY))
        assert refused.exit_code == 2
        assert "is a link or a device" in " ".join(refused.output.split())
        there.unlink()
        if moved is not None:
            moved.rename(there)
    assert [path.name for path in elsewhere.iterdir()] == ["notes.txt"]
    assert released(*synthesize(*RELEASE, *NOISY)).exit_code == 0


@pytest.mark.slow
def test_a_release_that_died_before_its_first_outcome_goes_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(store: DirectoryStore, step: str, outcome: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "put", die)
        stopped = run(*synthesize(*RELEASE, *NOISY))
    assert stopped.exit_code == 130
    assert "The same command resumes where this run stopped" in stopped.stderr
    (release,) = Ledger("ledger.db").reservations()
    assert release.spent > 0

    result = run(*synthesize(*RELEASE, *NOISY, "--json"))

    assert result.exit_code == 0, result.output
    assert (
        json.loads(result.stdout)["rho"]["spent"] == release.spent <= sum(release.shares.values())
    )


@pytest.mark.parametrize(
    "other",
    [
        (*RELEASE, "--epsilon", "0.3"),
        *slow((*RELEASE, *NOISY, "--edition", "2"), RESEARCH),
    ],
)
def test_a_charged_folder_is_not_overwritten(released: Run, other: tuple[str, ...]) -> None:
    table, events = Path("out/synthetic.csv").read_bytes(), Ledger("ledger.db").events()

    result = released(*synthesize(*other))

    assert result.exit_code == 2
    assert "--out" in result.stderr
    assert Path("out/synthetic.csv").read_bytes() == table
    assert Ledger("ledger.db").events() == events


@pytest.mark.slow
def test_a_new_ledger_grants_what_the_release_asks_for(run: Run) -> None:
    arguments = synthesize(*RELEASE, "--evaluation-mode", "private", "--ledger", "new.db", "--json")
    refused = run(*arguments).stderr
    assert "no grant says that it is public" in refused
    assert "let the new ledger's grant say so: --records-public" in " ".join(refused.split())
    # Nothing was granted, so the ledger is new for the next try.
    assert not Path("new.db").exists()
    arguments.append("--records-public")

    # In a process of its own: one object, whatever the libraries below have to say.
    ran = run_process(*arguments)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("\n") == 1
    assert json.loads(ran.stdout)["releasable"] is True
    assert "granted exactly what this release asks for" in ran.stderr
    assert "round 2/2" in ran.stderr
    balance = Ledger("new.db").balance("people")
    assert (balance.epsilon, balance.delta) == (1.0, 1e-9)


def test_mechanisms_are_listed_with_their_settings(run: Run) -> None:
    assert "--setting must be KEY=VALUE" in run(*synthesize("--setting", "alpha")).stderr
    twice = synthesize("--mechanism", "{name: aim, rounds: 4}", "--setting", "rounds=5")
    assert "--mechanism says rounds: 4, and --setting says rounds=5" in run(*twice).stderr
    answer = json.loads(run("mechanisms", "--json").stdout)

    assert list(answer) == list(MECHANISMS)
    assert answer["jam_pgm"]["settings"]["rounds"]["default"] == 30
    assert run("mechanisms", "aim").stdout.startswith("aim: AIM")
    assert "must be one of" in run("mechanisms", "jam").stderr


# --- what lies in the folder, and who may read it


def _modes(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}


@pytest.mark.slow
@pytest.mark.parametrize("before", ["nothing", "files that others may read"])
def test_what_research_makes_is_its_owners_alone(run: Run, before: str) -> None:
    """With the seed, a transcript tells exact marginals: it is as private as the table."""
    if before != "nothing":
        assert run(*synthesize(*RESEARCH)).exit_code == 0
        for path in (Path("out"), *Path("out").rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    mask = os.umask(0o022)
    try:
        result = run(*synthesize(*RESEARCH, "--evaluation-mode", "exact", "--report", "--checks"))
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(mask)
    assert result.exit_code == 0, result.output
    modes = _modes(Path("out"))
    assert len(modes) > 15
    assert {"out/transcript/measurements.npz", "out/synthetic.csv"} <= set(modes)
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


@pytest.mark.slow
def test_a_folder_of_other_things_stays_as_open_as_it_is(run: Run) -> None:
    Path("out").mkdir(mode=0o755)
    Path("out").chmod(0o755)
    Path("out/notes.txt").write_text("mine")
    result = run(*synthesize(*RESEARCH, "--no-report"))
    assert result.exit_code == 0, result.output
    modes = _modes(Path("out"))
    assert modes.pop("out") == 0o755
    assert modes.pop("out/notes.txt") & 0o044
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


@pytest.mark.slow
def test_a_release_may_be_read_by_others(run: Run) -> None:
    mask = os.umask(0o022)
    try:
        result = run(*synthesize(*RELEASE, *NOISY))
    finally:
        os.umask(mask)
    assert result.exit_code == 0, result.output
    assert _modes(Path("out"))["out/synthetic.csv"] == 0o644


@pytest.mark.slow
def test_what_leaves_does_not_say_where_the_private_table_lies(run: Run) -> None:
    Path("ward-nine").mkdir()
    Path("priv.csv").rename("ward-nine/patients-secret.csv")
    options = (*RELEASE, *NOISY, "--report", "--checks")
    result = run(*synthesize(*options, private="ward-nine/patients-secret.csv"))
    assert result.exit_code == 0, result.output
    files = [path for path in Path("out").rglob("*") if path.is_file()]
    assert Path("out/report.html") in files
    assert Path("out/certificate.html") in files
    for path in files:
        content = path.read_bytes()
        for word in (b"ward-nine", b"patients-secret"):
            assert word not in content, path


# --- a full disk

RELEASE_ON_A_FULL_DISK = """
import contextlib, io, os
from pathlib import Path
from jam_dagster.cli import app
from tests.cli_bench import NOISY, RELEASE, run_cli, synthesize
fill()
arguments = synthesize(*RELEASE, *NOISY, "--out", os.path.join(disk, "out"))
full = run_cli(*arguments)
print(full.exit_code, " ".join(full.stderr.split()))
print(*files())
(Path(disk) / "filler").unlink()
again = run_cli(*arguments)
print(again.exit_code, " ".join(again.stderr.split()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 12288, 40960])
def test_a_release_folder_on_a_full_disk_says_so_and_goes_on_with_room(
    run: Run, tmp_path_factory: pytest.TempPathFactory, room: int
) -> None:
    disk = tmp_path_factory.mktemp("disk")
    said, left, again = on_a_full_disk(RELEASE_ON_A_FULL_DISK, disk, room=room)
    assert not said.startswith("0 ")
    assert os.strerror(errno.ENOSPC) in said
    assert str(disk) in said
    assert "Traceback" not in said
    assert "priv.csv" not in said
    # Nothing half is there: names that begin with a dot are those of files in the making.
    assert not [name for name in left.split() if Path(name).name.startswith(".")]
    assert again.startswith("0 "), again
    assert Ledger("ledger.db").verify().events > 3


@pytest.mark.slow
def test_a_domain_with_formulas_is_refused_before_it_begins(run: Run) -> None:
    for name in ("priv", "pub"):
        rows = 60 if name == "priv" else 40
        frame = pd.DataFrame({"a": ["=1+1", "x"] * (rows // 2), "b": ["u", "v"] * (rows // 2)})
        frame.to_csv(f"{name}.csv", index=False)
    Path("domain.json").write_text(
        json.dumps({"attributes": {"a": {"values": ["=1+1", "x"]}, "b": {"values": ["u", "v"]}}})
    )
    before = Path("ledger.db").read_bytes()

    result = run(*synthesize(*RELEASE, *NOISY))

    assert result.exit_code == 2
    assert "its values '=1+1'" in result.stderr
    assert Path("ledger.db").read_bytes() == before

"""The command line: its help, and how its commands end."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import yaml

import jam_dagster
from jam_dagster.cli import commands
from jam_dagster.privacy import Ledger
from jam_dagster.tables import Domain
from tests.cli_bench import PEOPLE, RELEASE, Run, lines, synthesize
from tests.tiers import slow, slow_rows

# --- help and version


def test_help_teaches_by_example(run: Run) -> None:
    result = run("--help")

    assert result.exit_code == 0
    assert "jam-dagster demo data --out people" in result.stdout
    assert "jam-dagster ledger show --ledger ledger.db" in result.stdout


@pytest.mark.slow
def test_the_examples_of_the_help_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = inspect.getdoc(commands._root) or ""
    examples = re.findall(r"```\n(.*?)```", text, flags=re.DOTALL)
    first, plan, *_ = (one.replace("\\\n", "").splitlines() for one in examples)
    shorter = {"synthesize": ("--no-checks", "--no-report"), "plan": ("--quick",)}
    for line in (*first, *plan):
        program, *arguments = shlex.split(line)
        if program == "cd":
            monkeypatch.chdir(*arguments)
            continue
        done = run(*arguments, *shorter.get(arguments[0], ()))
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "command",
    [
        ["synthesize"],
        *slow(
            ["domain", "draft"],
            ["ledger", "show"],
            ["ledger", "grant"],
            ["ledger", "close"],
            ["ledger", "verify"],
            ["demo", "data"],
        ),
    ],
)
def test_every_command_explains_every_option(run: Run, command: list[str]) -> None:
    result = run(*command, "--help")

    assert result.exit_code == 0
    # A line of an option without help ends after its type.
    assert not re.findall(r"^│ \*? +--\S+ +<?\S+>? *│$", result.stdout, flags=re.MULTILINE)


def test_version(run: Run) -> None:
    assert run("--version").stdout == f"jam-dagster {jam_dagster.__version__}\n"


@pytest.mark.slow
def test_help_takes_less_than_a_second_of_work_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from jam_dagster.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'pandas', 'jax', 'mbi', 'opendp', 'dagster', 'great_expectations'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))"
    )
    # The processor's time: the machine may be busy with something else.
    before = os.times()
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after = os.times()
    assert "LOADED []" in ran.stdout
    used = (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )
    assert 0 < used < 1


# --- how a command ends


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["synthesise"], "Did you mean 'synthesize'?"),
        *slow_rows((["synthesize"], "Missing option '--out'")),
        (["synthesize", "--epsilon", "much"], "--epsilon"),
        *slow_rows(
            (["synthesize", "--noise", "loud"], "--noise"),
            (["ledger", "grant", "--ledger", "ledger.db"], "Missing option '--dataset'"),
        ),
    ],
)
def test_a_usage_error_is_one_line_and_2(run: Run, arguments: list[str], says: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = lines(result)
    assert says in line
    assert "--help" in line


def _bad(name: str, content: str) -> str:
    Path(name).write_text(content)
    return name


BAD_INPUT = {
    "no private file": (lambda: synthesize(*RELEASE, private="absent.csv"), "absent.csv"),
    "no public file": (lambda: synthesize(*RELEASE, public="absent.csv"), "absent.csv"),
    "a source that is no JSON": (lambda: synthesize(*RELEASE, public="{csv}"), "JSON"),
    "a private value outside the domain": (
        lambda: synthesize(
            *RELEASE, private=_bad("bad.csv", "age,sex,job,income\n1,1,1,1\n1,7777,1,1\n")
        ),
        "The private table does not fit",
    ),
    "a password in broken JSON": (
        lambda: synthesize(*RELEASE, private='{"sql": "postgresql://u:7777@h/db", "query"'),
        "JSON",
    ),
    "a password in a URL": (
        lambda: synthesize(*RELEASE, private="postgresql://u:7777@h/db"),
        '{"sql": URL',
    ),
    "a domain with private values": (
        lambda: synthesize(
            *RELEASE,
            domain=_bad(
                "bad.yaml",
                "identified_from: private\nattributes:\n"
                + "".join(f"  {a}: {{values: {list(range(n))}}}\n" for a, n in PEOPLE.items()),
            ),
        ),
        "--noise numpy",
    ),
    "no ledger": (lambda: synthesize("--dataset", "people"), "--ledger"),
    "no dataset": (lambda: synthesize("--ledger", "ledger.db"), "--dataset"),
    "an unknown dataset": (
        lambda: synthesize("--ledger", "ledger.db", "--dataset", "martians"),
        "jam-dagster ledger grant",
    ),
    "a file as the output": (lambda: synthesize(*RELEASE, "--out", "priv.csv"), "--out"),
    "a file above the output": (lambda: synthesize(*RELEASE, "--out", "priv.csv/out"), "--out"),
    "an output that is taken": (
        lambda: (Path("out").mkdir(), _bad("out/synthetic.csv", "x\n"), synthesize(*RELEASE))[-1],
        "synthetic.csv and no release.json",
    ),
}


IN_THE_PRIVATE_TABLE = ("no private file", "a private value outside the domain")


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line_and_2_and_charges_nothing(run: Run, case: str) -> None:
    arguments, says = BAD_INPUT[case]
    given = arguments()
    before, files = Ledger("ledger.db").events(), set(Path().rglob("*"))

    result = run(*given)

    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    *kept, line = lines(result)
    assert says in line
    if case in IN_THE_PRIVATE_TABLE:
        first, *kept = kept
        assert first.startswith("JAM-PGM (rounds = 2, ")
    assert ["jam-dagster ledger close" in one for one in kept] == [True] * (
        case in IN_THE_PRIVATE_TABLE
    )
    # The value of a private cell is nobody's business, nor is a password.
    assert "7777" not in line
    written = [event.kind.value for event in Ledger("ledger.db").events()[len(before) :]]
    # Only what the private table alone can tell is found after the reservation.
    assert set(written) <= ({"reserved"} if case in IN_THE_PRIVATE_TABLE else set())
    if not written:
        # Reading a database in WAL mode may leave its two companions.
        assert set(Path().rglob("*")) - files <= {Path("ledger.db-wal"), Path("ledger.db-shm")}


@pytest.mark.slow
def test_another_folder_takes_over_what_a_failed_first_try_reserved(run: Run) -> None:
    """A release has the name of its folder where it is given none."""
    unnamed = [*RELEASE, "--out", "first"]
    failed = run(*synthesize(*unnamed, private="absent.csv"))
    (_, kept, _) = lines(failed)
    assert kept.startswith("The release 'first', edition '1' of dataset 'people' keeps its")
    assert "--dataset people --release first --reason REASON" in kept
    ledger = Ledger("ledger.db")
    (reserved,) = ledger.reservations()

    # What another run holds stays, and so does another specification's.
    with ledger.claim(reserved.release_id):
        assert "by release 'first'" in run(*synthesize(*RELEASE, "--out", "second")).stderr
    assert "by release 'first'" in (
        run(*synthesize(*RELEASE, "--epsilon", "0.9", "--out", "second")).stderr
    )
    assert not reserved.closed

    again = run(*synthesize(*RELEASE, "--out", "second"))
    assert again.exit_code == 0, again.output
    assert reserved.closed
    assert "its reservation is taken over by release 'second'" in again.stderr
    assert ledger.verify()


@pytest.mark.slow
def test_draws_that_lie_in_dagsters_store_are_told(run: Run) -> None:
    assert run(*synthesize(*RELEASE, private="absent.csv")).exit_code == 2
    ledger = Ledger("ledger.db")
    (reserved,) = ledger.reservations()
    dagster = ledger.open_release(reserved.release_id, reserved.shares, run_id="4f2a")
    dagster.account("mechanism").charge("round-000/select", 1e-6)

    result = run(*synthesize(*RELEASE))

    assert result.exit_code == 2
    assert "Dagster charged it (run 4f2a): its store holds them" in result.stderr
    assert reserved.spent == dagster.spent > 0


@pytest.mark.slow
def test_nothing_in_the_ledger_follows_from_private_values(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another private table, of as many records: all that the ledger says is the same."""
    entries = []
    # The names of runs are random.
    monkeypatch.setattr("jam_dagster.privacy.ledger.release_id.uuid4", lambda: uuid.UUID(int=1))
    for private in ("priv.csv", "pub.csv"):
        head, *records = Path(private).read_text().splitlines(keepends=True)[:101]
        # In another order, for a copy of the public table would be refused.
        Path("table.csv").write_text("".join([head, *reversed(records)]))
        Path("table.csv").chmod(0o600)
        budget = ("--ledger", f"{private}.db", "--dataset", "people", "--out", f"{private}-out")
        arguments = (*budget, "--records-public", "--release", "r", "--setting", "alpha=0.7")
        assert run(*synthesize(*arguments, private="table.csv")).exit_code == 0
        events = Ledger(f"{private}.db").events()
        reserved = [event for event in events if event.kind.value in ("granted", "reserved")]
        entries.append(
            [(one.release_id, one.share, one.units, one.reason, one.run_id) for one in reserved]
        )
        texts = {(one.dataset, one.release, one.specification, one.run_id) for one in events[1:]}
        assert len(texts) == 1
        assert {one.step for one in events if one.step} <= {
            f"round-{index:03}/{what}" for index in range(40) for what in ("select", "measure")
        } | {"evaluation/means"}
    assert entries[0] == entries[1]


def test_bad_input_makes_no_new_ledger(run: Run) -> None:
    result = run(*synthesize("--ledger", "new.db", "--dataset", "x", public="absent.csv"))

    assert result.exit_code == 2
    assert not Path("new.db").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        ("--ledger", "/proc/absent/l.db", "--dataset", "people"),
        (*RELEASE, "--out", "/proc/absent/out"),
        (*RELEASE, "--release", "r" * 201),
    ],
)
def test_what_cannot_be_written_is_found_before_the_private_table_is_opened(
    run: Run, given: tuple[str, ...]
) -> None:
    # Opened, a table that is not there would be the fault that is told.
    result = run(*synthesize(*given, private="absent.csv"))

    assert result.exit_code == 2
    (line,) = lines(result)
    assert "absent.csv" not in line
    assert not Path("out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("domain", "draft", "--public", "raw-pub.csv", "--out", "folder.yaml"),
        ("demo", "data", "--out", "priv.csv/demo"),
    ],
)
def test_what_cannot_be_written_is_one_line_and_2(run: Run, command: tuple[str, ...]) -> None:
    Path("folder.yaml").mkdir()

    result = run(*command)

    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 2
    (line,) = lines(result)
    assert command[command.index("--out") + 1].split("/")[0] in line


def test_a_refused_budget_is_3_before_the_private_table_is_opened(run: Run) -> None:
    before = Ledger("ledger.db").events()

    # Opened, a table that is not there would be bad input.
    result = run(*synthesize(*RELEASE, "--epsilon", "1.5", private="absent.csv"))

    assert result.exit_code == 3
    (line,) = lines(result)
    assert "asks for" in line
    assert "too little" in line
    assert Ledger("ledger.db").events() == before
    assert not Path("out").exists()


# --- domain


def test_a_draft_says_at_once_what_it_leaves_out(run: Run) -> None:
    Path("odd.csv").write_text("year,age,note,job\n2013,3,,x\n2013,4,,y\n")
    draft = ("domain", "draft", "--public", "odd.csv", "--out", "d.yaml", "--bins", "8")

    result = run(*draft, "--exclude", "job")
    assert "year: is 2013 in every row\n  note: is missing in every row\n" in result.stderr
    assert list(yaml.safe_load(Path("d.yaml").read_text())["attributes"]) == ["age"]
    assert "  # left out: year: is 2013 in every row\n  age:" in Path("d.yaml").read_text()

    assert "if you write it below `derived`:\n  year: 2013\n" in result.stderr
    assert run(*draft, "--exclude", "job").exit_code == 0
    drafted = yaml.safe_load(Path("d.yaml").read_text())
    assert drafted["identified_from"] == "public"
    assert drafted["derived"]["year"]["expression"] is None

    result = run(*draft, "--columns", "age, job")
    assert "left out" not in result.stderr
    assert "did you mean age?" in run(*draft, "--columns", "aged").stderr


def test_a_draft_asks_who_is_protected(run: Run) -> None:
    lines = [f"{n // 2},{n % 7}" for n in range(80)]
    Path("invoices.csv").write_text("\n".join(["client_id,kind", *lines]))
    said = run("domain", "draft", "--public", "invoices.csv", "--out", "d.yaml").stderr
    assert "client_id (40 values) looks like a person's key, and repeats in the 80 rows" in said
    assert "a release's file says so once: privacy: {unit: row}." in said


def test_the_domain_of_two_tables_is_drafted_at_once(run: Run) -> None:
    Path("homes.csv").write_text("home,region,year\n1,n,2013\n2,s,2013\n3,n,2013\n")
    Path("people.csv").write_text("home,age,job,note\n1,3,x,\n1,40,y,\n3,50,x,\n")
    persons = {"source": "people.csv", "key": "home", "max": 4}
    table = json.dumps({"roots": "homes.csv", "children": {"persons": persons}})
    draft = ("domain", "draft", "--public", table, "--out", "d.yaml")

    result = run(*draft, "--exclude", "job")
    assert "Table persons:" in result.stderr
    written = Path("d.yaml").read_text()
    assert "# left out of persons: note: is missing in every row" in written
    drafted = Domain.load("d.yaml")
    assert drafted.children is not None
    assert drafted.children.link.maximum == 4
    assert (drafted.roots.names, drafted.children.domain.names) == (("region",), ("age",))

    research = run(*draft, "--private", table, "--research")
    assert "drafts the domain of one table" in research.stderr
    assert "no column 'wealth'" in run(*draft, "--columns", "wealth").stderr


@pytest.mark.slow
def test_private_values_enter_a_domain_for_research_only(run: Run) -> None:
    given = ("domain", "draft", "--public", "raw-pub.csv", "--private", "raw-priv.csv")

    refused = run(*given, "--out", "d.yaml")
    assert refused.exit_code == 2
    assert "--research" in refused.stderr
    assert not Path("d.yaml").exists()

    accepted = run(*given, "--research", "--out", "d.yaml")
    assert accepted.exit_code == 0, accepted.output
    assert "may leave" in accepted.stderr
    assert yaml.safe_load(Path("d.yaml").read_text())["identified_from"] == "private"
    assert Path("d.yaml").stat().st_mode & 0o777 == 0o600


# --- demo


@pytest.mark.slow
def test_demo_tables_replace_no_file_of_the_reader(run: Run) -> None:
    assert run("demo", "data", "--out", ".").exit_code == 0
    assert run("demo", "data", "--out", ".").exit_code == 0

    Path("people.csv").write_text("name\nmine\n")
    Path("survey_2016.csv").unlink()
    result = run("demo", "data", "--out", ".")

    assert result.exit_code == 2
    (line,) = lines(result)
    assert "people.csv exists and is another file" in line
    assert Path("people.csv").read_text() == "name\nmine\n"
    assert not Path("survey_2016.csv").exists()

"""The command line: what it prints, how it ends, and what it does to a ledger."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner, Result

import jam_dagster
from jam_dagster.cli import app
from jam_dagster.privacy import Ledger
from jam_dagster.synthesis import SynthesisRequest
from jam_dagster.tables import CsvSource

PEOPLE = {"age": 4, "sex": 2, "job": 3, "income": 2}
QUICK = ("--rounds", "2", "--iterations", "20", "--degree", "2")
KEYS = ["workload_error", "seconds", "peak_memory_mb", "rho", "picks", "rows", "releasable"]

Run = Callable[..., Result]


def _write_tables() -> None:
    """Write coded and raw tables, their domains and a ledger to the working directory."""
    rng = np.random.default_rng(0)
    for name, rows in (("priv", 200), ("pub", 80)):
        coded = pd.DataFrame({a: rng.integers(0, size, rows) for a, size in PEOPLE.items()})
        coded.to_csv(f"{name}.csv", index=False)
        raw = pd.DataFrame(
            {"age": rng.integers(17, 91, rows), "job": rng.choice(["baker", "pilot"], rows)}
        )
        raw.to_csv(f"raw-{name}.csv", index=False)
    Path("domain.json").write_text(json.dumps(PEOPLE))
    Ledger("ledger.db").grant("people", epsilon=1.0, delta=1e-9)


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder with two tables, their domain and a ledger."""
    monkeypatch.chdir(tmp_path)
    _write_tables()
    return _run


@pytest.fixture(scope="module")
def release_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a release in such a folder."""
    folder = tmp_path_factory.mktemp("released")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _write_tables()
        made = _run(*synthesize(*RELEASE, *NOISY, "--json"))
        assert made.exit_code == 0, made.output
        Path("made.json").write_text(made.stdout)
    return folder


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release_folder: Path) -> Run:
    """Run a command in a folder where a release was made with `RELEASE` and `NOISY`."""
    shutil.copytree(release_folder, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return _run


def synthesize(*options: object, **tables: str) -> list[object]:
    """Return the arguments of a small synthesis; options given later override."""
    named = {"private": "priv.csv", "public": "pub.csv", "domain": "domain.json", **tables}
    given = [part for name, value in named.items() for part in (f"--{name}", value)]
    return ["synthesize", *given, "--epsilon", "1", "--out", "out", *QUICK, *options]


RESEARCH = ("--noise", "numpy")
RELEASE = ("--ledger", "ledger.db", "--dataset", "people", "--no-report")
NOISY = ("--epsilon", "0.4", "--evaluate", "private")


def lines(result: Result) -> list[str]:
    return result.stderr.splitlines()


# --- help and version


def test_help_teaches_by_example(run: Run) -> None:
    result = run("--help")

    assert result.exit_code == 0
    assert "jam-dagster demo data --out people" in result.stdout
    assert "jam-dagster ledger show --ledger ledger.db" in result.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["synthesize"],
        ["domain", "draft"],
        ["ledger", "show"],
        ["ledger", "grant"],
        ["ledger", "verify"],
        ["demo", "data"],
    ],
)
def test_every_command_explains_every_option(run: Run, command: list[str]) -> None:
    result = run(*command, "--help")

    assert result.exit_code == 0
    # A line of an option without help ends after its type.
    assert not re.findall(r"^│ \*? +--\S+ +<?\S+>? *│$", result.stdout, flags=re.MULTILINE)


def test_version(run: Run) -> None:
    assert run("--version").stdout == f"jam-dagster {jam_dagster.__version__}\n"


def test_help_takes_less_than_a_second_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from jam_dagster.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'pandas', 'jax', 'mbi', 'opendp', 'dagster', 'great_expectations'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))"
    )
    # The best of three: the machine may be busy with something else.
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        seconds.append(time.monotonic() - started)
        assert "LOADED []" in ran.stdout
    assert min(seconds) < 1


# --- how a command ends


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["synthesise"], "Did you mean 'synthesize'?"),
        (["synthesize"], "Missing option '--private'"),
        (["synthesize", "--epsilon", "much"], "--epsilon"),
        (["synthesize", "--noise", "loud"], "--noise"),
        (["ledger", "grant", "--ledger", "ledger.db"], "Missing option '--dataset'"),
    ],
)
def test_a_usage_error_is_one_line_and_2(run: Run, arguments: list[str], says: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = lines(result)
    assert says in line
    assert "--help" in line


def _without(text: str, column: str) -> str:
    frame = pd.read_csv(text)
    return frame.drop(columns=column).to_csv(index=False)


def _bad(name: str, content: str) -> str:
    Path(name).write_text(content)
    return name


BAD_INPUT = {
    "no private file": (lambda: synthesize(*RELEASE, private="absent.csv"), "absent.csv"),
    "no public file": (lambda: synthesize(*RELEASE, public="absent.csv"), "absent.csv"),
    "no domain file": (lambda: synthesize(*RELEASE, domain="absent.json"), "absent.json"),
    "an unknown format": (lambda: synthesize(*RELEASE, public="people.xls"), "people.xls"),
    "a source that is no JSON": (lambda: synthesize(*RELEASE, public="{csv}"), "JSON"),
    "a private column missing": (
        lambda: synthesize(*RELEASE, private=_bad("bad.csv", _without("priv.csv", "job"))),
        "job",
    ),
    "a public column missing": (
        lambda: synthesize(*RELEASE, public=_bad("bad.csv", _without("pub.csv", "job"))),
        "job",
    ),
    "a private value outside the domain": (
        lambda: synthesize(
            *RELEASE, private=_bad("bad.csv", "age,sex,job,income\n1,1,1,1\n1,7777,1,1\n")
        ),
        "sex",
    ),
    "an empty private table": (
        lambda: synthesize(*RELEASE, private=_bad("bad.csv", "age,sex,job,income\n")),
        "rows",
    ),
    "an empty public table": (
        lambda: synthesize(*RELEASE, public=_bad("bad.csv", "age,sex,job,income\n")),
        "rows",
    ),
    "an unknown key in the domain": (
        lambda: synthesize(*RELEASE, domain=_bad("bad.yaml", "attributes: {}\nimposible: []\n")),
        "imposible",
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
    "epsilon 0": (lambda: synthesize(*RELEASE, "--epsilon", "0"), "epsilon"),
    "epsilon nan": (lambda: synthesize(*RELEASE, "--epsilon", "nan"), "epsilon"),
    "a negative epsilon": (lambda: synthesize(*RELEASE, "--epsilon", "-1"), "epsilon"),
    "delta 0": (lambda: synthesize(*RELEASE, "--delta", "0"), "delta"),
    "no rounds": (lambda: synthesize(*RELEASE, "--rounds", "0"), "rounds"),
    "alpha 1": (lambda: synthesize(*RELEASE, "--alpha", "1"), "alpha"),
    "degree 0": (lambda: synthesize(*RELEASE, "--degree", "0"), "degree"),
    "a degree beyond the attributes": (lambda: synthesize(*RELEASE, "--degree", "5"), "5"),
    "a negative seed": (lambda: synthesize(*RELEASE, "--seed", "-1"), "seed"),
    "no model fits": (
        lambda: synthesize(*RELEASE, "--size-limit-mb", "0.00000001"),
        "size limit",
    ),
    "a share that nothing asks for": (
        lambda: synthesize(*RELEASE, "--evaluation-share", "0.1"),
        "drop it",
    ),
    "a share that is too large": (
        lambda: synthesize(*RELEASE, "--evaluate", "private", "--evaluation-share", "1"),
        "share",
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
        "--out",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line_and_2_and_charges_nothing(run: Run, case: str) -> None:
    arguments, says = BAD_INPUT[case]
    given = arguments()
    before, files = Ledger("ledger.db").events(), set(Path().rglob("*"))

    result = run(*given)

    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = lines(result)
    assert says in line
    # The value of a private cell is nobody's business.
    assert "7777" not in line
    assert Ledger("ledger.db").events() == before
    # Reading a database in WAL mode may leave its two companions.
    assert set(Path().rglob("*")) - files <= {Path("ledger.db-wal"), Path("ledger.db-shm")}


def test_bad_input_makes_no_new_ledger(run: Run) -> None:
    result = run(*synthesize("--ledger", "new.db", "--dataset", "x", private="absent.csv"))

    assert result.exit_code == 2
    assert not Path("new.db").exists()


def test_a_file_that_is_no_ledger_is_bad_input(run: Run) -> None:
    result = run(*synthesize("--ledger", "priv.csv", "--dataset", "people"))

    assert result.exit_code == 2
    assert "not a ledger" in result.stderr


def test_an_unknown_dataset_is_told_which_are_known(run: Run) -> None:
    result = run(*synthesize("--ledger", "ledger.db", "--dataset", "martians"))

    assert "'people'" in result.stderr


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


# --- research


def test_research_prints_one_object_with_the_promised_keys(run: Run) -> None:
    result = run(*synthesize(*RESEARCH, "--json"))

    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    made = json.loads(result.stdout)
    assert list(made) == [*KEYS, "output"]
    assert list(made["workload_error"]) == ["synthetic", "public", "independent"]
    for error in made["workload_error"].values():
        assert list(error) == ["mean", "max"]
        assert 0 <= error["mean"] <= error["max"] <= 2
    assert next(iter(made["seconds"])) == "total"
    stages = sum(made["seconds"].values()) - made["seconds"]["total"]
    assert 0.5 * made["seconds"]["total"] < stages <= made["seconds"]["total"] + 0.01
    assert made["peak_memory_mb"] > 50
    assert made["rho"]["budget"] == pytest.approx(0.0149730577, abs=1e-9)
    assert 0 < made["rho"]["spent"] <= made["rho"]["budget"]
    assert list(made["picks"]) == ["private", "public"]
    assert sum(made["picks"].values()) == 2
    assert made["rows"] == 200
    assert made["releasable"] is False
    assert made["output"] == str(Path("out").resolve())


def test_research_leaves_a_table_and_its_story(run: Run) -> None:
    run(*synthesize(*RESEARCH))

    table = pd.read_csv("out/synthetic.csv")
    assert list(table.columns) == list(PEOPLE)
    assert len(table) == 200
    assert all(table[name].between(0, size - 1).all() for name, size in PEOPLE.items())
    errors = json.loads(Path("out/restricted/errors.json").read_text())
    assert errors["synthetic"]["max"] > 0
    assert Path("out/restricted").stat().st_mode & 0o777 == 0o700
    assert Path("out/restricted/errors.json").stat().st_mode & 0o777 == 0o600
    assert not Path("out/errors.json").exists()


def test_research_may_use_its_folder_again(run: Run) -> None:
    run(*synthesize(*RESEARCH))

    result = run(*synthesize(*RESEARCH, "--evaluate", "off", "--seed", "1"))

    assert result.exit_code == 0
    # What the first run left would be taken for the errors of the second.
    assert not Path("out/restricted").exists()


@pytest.mark.slow
def test_a_seed_makes_the_same_table_in_another_process(run: Run) -> None:
    tables = []
    for number in ("1", "2"):
        arguments = [*map(str, synthesize(*RESEARCH, "--seed", "3", "--json")), "--out", number]
        ran = subprocess.run(
            [sys.executable, "-m", "jam_dagster.cli", *arguments],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        # One object, whatever the libraries below have to say.
        assert list(json.loads(ran.stdout)) == [*KEYS, "output"]
        assert ran.stdout.count("\n") == 1
        tables.append(Path(number, "synthetic.csv").read_bytes())
    assert tables[0] == tables[1]


def test_evaluation_can_be_off(run: Run) -> None:
    result = run(*synthesize(*RESEARCH, "--evaluate", "off", "--json"))

    errors = json.loads(result.stdout)["workload_error"]
    assert errors == {"synthetic": None, "public": None, "independent": None}


def test_without_a_domain_it_is_drafted_from_the_public_table(run: Run) -> None:
    raw = ["--private", "raw-priv.csv", "--public", "raw-pub.csv"]

    result = run(
        *("synthesize", *raw, "--epsilon", "1", "--out", "out", *QUICK, *RESEARCH, "--json")
    )

    assert result.exit_code == 0, result.output
    table = pd.read_csv("out/synthetic.csv")
    assert set(table["job"]) <= {"baker", "pilot", "other"}
    assert yaml.safe_load(Path("out/domain.yaml").read_text())["identified_from"] == "public"


def test_the_summary_is_for_people(run: Run) -> None:
    result = run(*synthesize(*RESEARCH))

    assert "epsilon 1 at delta 1e-09" in result.stdout
    assert "Error, public" in result.stdout
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
    assert Path("out/errors.json").exists()
    assert not Path("out/restricted").exists()


def test_a_release_is_reported_in_two_editions(run: Run) -> None:
    result = run(*synthesize(*RELEASE, "--report"))

    assert result.exit_code == 0, result.output
    assert f"Report{' ' * 14}{Path('out/report.html').resolve()}\n" in result.stdout
    page, restricted = (
        Path("out", name).read_text() for name in ("report.html", "restricted/report.html")
    )
    assert not Path("out/errors.json").exists()
    errors = json.loads(Path("out/restricted/errors.json").read_text())
    mean = f"{errors['synthetic']['mean']:.4f}"[1:]
    assert mean in restricted
    assert mean not in page
    assert Path("out/restricted/report.html").stat().st_mode & 0o777 == 0o600


def test_a_release_is_reported_unless_not_wanted() -> None:
    tables = {"private": CsvSource("priv.csv"), "public": CsvSource("pub.csv")}
    made = {
        (noise, report): SynthesisRequest(
            **tables, out=Path("out"), epsilon=1, noise=noise, report=report
        ).wants_report
        for noise in ("exact", "numpy")
        for report in (None, True, False)
    }

    assert made == {
        ("exact", None): True,
        ("exact", True): True,
        ("exact", False): False,
        ("numpy", None): False,
        ("numpy", True): True,
        ("numpy", False): False,
    }


def test_the_same_release_again_is_free_and_the_same(released: Run) -> None:
    table, events = Path("out/synthetic.csv").read_bytes(), Ledger("ledger.db").events()
    first = json.loads(Path("made.json").read_text())
    Path("out/synthetic.csv").unlink()

    result = released(*synthesize(*RELEASE, *NOISY, "--json"))

    assert result.exit_code == 0, result.output
    assert Ledger("ledger.db").events() == events
    assert Path("out/synthetic.csv").read_bytes() == table
    second = json.loads(result.stdout)
    for key in ("workload_error", "rho", "picks"):
        assert second[key] == first[key]


def test_a_release_that_was_interrupted_goes_on_without_paying_twice(released: Run) -> None:
    table, events = Path("out/synthetic.csv").read_bytes(), Ledger("ledger.db").events()
    # What a crash between the last draw and the end of the run leaves: the draws alone.
    for path in ("transcript/transcript.json", "synthetic.csv"):
        Path("out", path).unlink()

    result = released(*synthesize(*RELEASE, *NOISY))

    assert result.exit_code == 0, result.output
    assert Ledger("ledger.db").events() == events
    assert Path("out/synthetic.csv").read_bytes() == table


def test_a_lost_evaluation_does_not_withhold_the_table(released: Run) -> None:
    events = Ledger("ledger.db").events()
    # What a crash between the charge and the storing of the noisy means leaves.
    Path("out/draws/evaluation-means.npz").unlink()
    Path("out/synthetic.csv").unlink()

    result = released(*synthesize(*RELEASE, *NOISY, "--json"))

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["workload_error"]["synthetic"] is None
    assert "lost" in result.stderr
    assert Path("out/synthetic.csv").exists()
    assert Ledger("ledger.db").events() == events


def test_a_charged_release_without_its_folder_is_bad_input(released: Run) -> None:
    events = Ledger("ledger.db").events()

    result = released(
        *synthesize(*RELEASE, *NOISY, "--release", "out", "--out", "elsewhere", "--json")
    )

    assert result.exit_code == 2
    assert "--edition" in result.stderr
    assert Ledger("ledger.db").events() == events


def test_another_edition_is_paid_anew(released: Run) -> None:
    before = Ledger("ledger.db").balance("people").spent

    result = released(
        *synthesize(*RELEASE, *NOISY, "--release", "out", "--edition", "2", "--out", "two")
    )

    assert result.exit_code == 0, result.output
    assert Ledger("ledger.db").balance("people").spent > before
    editions = {event.edition for event in Ledger("ledger.db").events() if event.edition}
    assert editions == {"1", "2"}


@pytest.mark.parametrize(
    "other",
    [
        (*RELEASE, "--epsilon", "0.3"),
        (*RELEASE, *NOISY, "--edition", "2"),
        RESEARCH,
    ],
)
def test_a_charged_folder_is_not_overwritten(released: Run, other: tuple[str, ...]) -> None:
    table, events = Path("out/synthetic.csv").read_bytes(), Ledger("ledger.db").events()

    result = released(*synthesize(*other))

    assert result.exit_code == 2
    assert "--out" in result.stderr
    assert Path("out/synthetic.csv").read_bytes() == table
    assert Ledger("ledger.db").events() == events


def test_draws_of_one_ledger_are_not_free_in_another(released: Run) -> None:
    result = released(*synthesize(*RELEASE, *NOISY, "--ledger", "new.db"))

    assert result.exit_code == 2
    assert "never charged" in result.stderr
    assert not Path("new.db").exists()


def test_new_data_are_a_new_release(released: Run) -> None:
    events = Ledger("ledger.db").events()
    pd.read_csv("priv.csv").head(150).to_csv("priv.csv", index=False)

    result = released(*synthesize(*RELEASE, *NOISY))

    assert result.exit_code == 2
    assert "--edition" in result.stderr
    assert Ledger("ledger.db").events() == events


def test_a_new_ledger_grants_what_the_release_asks_for(run: Run) -> None:
    arguments = synthesize(*RELEASE, "--evaluate", "private", "--ledger", "new.db", "--json")

    # In a process of its own: one object, whatever the libraries below have to say.
    ran = subprocess.run(
        [sys.executable, "-m", "jam_dagster.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("\n") == 1
    assert json.loads(ran.stdout)["releasable"] is True
    assert "granted exactly what this release asks for" in ran.stderr
    assert "round 2/2" in ran.stderr
    balance = Ledger("new.db").balance("people")
    assert (balance.epsilon, balance.delta) == (1.0, 1e-9)


# --- domain


def test_a_domain_is_drafted_from_the_public_table(run: Run) -> None:
    result = run("domain", "draft", "--public", "raw-pub.csv", "--out", "d.yaml", "--bins", "8")

    assert result.exit_code == 0, result.output
    drafted = yaml.safe_load(Path("d.yaml").read_text())
    assert drafted["identified_from"] == "public"
    assert drafted["attributes"]["job"]["other"] == "other"


def test_a_domain_without_other(run: Run) -> None:
    run("domain", "draft", "--public", "raw-pub.csv", "--out", "d.yaml", "--no-other")

    assert "other" not in yaml.safe_load(Path("d.yaml").read_text())["attributes"]["job"]


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


# --- ledger


def test_a_ledger_is_granted_and_shown(run: Run) -> None:
    run("ledger", "grant", "--ledger", "l.db", "--dataset", "a", "--epsilon", 2, "--delta", 1e-6)
    run("ledger", "grant", "--ledger", "l.db", "--dataset", "b", "--epsilon", 1, "--delta", 1e-9)

    shown = json.loads(run("ledger", "show", "--ledger", "l.db", "--json").stdout)

    assert [d["dataset"] for d in shown["datasets"]] == ["a", "b"]
    (one,) = json.loads(
        run("ledger", "show", "--ledger", "l.db", "--dataset", "b", "--json").stdout
    )["datasets"]
    assert one["rho"]["granted"] == pytest.approx(0.0149730577, abs=1e-9)
    assert one["epsilon_at_delta"]["remaining"] == pytest.approx(1)
    table = run("ledger", "show", "--ledger", "l.db").stdout
    assert "rho 0.01497" in table
    assert "granted" in table


def test_a_ledger_shows_what_a_release_spent(released: Run) -> None:
    result = released("ledger", "show", "--ledger", "ledger.db", "--last", "3")

    spent = Ledger("ledger.db").balance("people").spent
    assert f"rho {spent:.4g}" in result.stdout
    assert "The last 3 of" in result.stdout


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_ledger_that_is_not_there_is_not_made(run: Run, command: str) -> None:
    result = run("ledger", command, "--ledger", "absent.db")

    assert result.exit_code == 2
    assert "jam-dagster ledger grant" in result.stderr
    assert not Path("absent.db").exists()


def test_a_ledger_is_verified(run: Run) -> None:
    result = run("ledger", "verify", "--ledger", "ledger.db")

    assert result.exit_code == 0
    assert result.stdout.strip() == Ledger("ledger.db").events()[-1].hash


# --- demo


def test_demo_data_can_be_synthesized(run: Run) -> None:
    made = run(*("demo", "data", "--out", "demo", "--private-rows", "400", "--public-rows", "100"))
    assert made.exit_code == 0, made.output
    assert len(pd.read_csv("demo/private.csv")) == 400
    assert len(pd.read_csv("demo/public.csv")) == 100

    result = run(
        *synthesize(
            *RESEARCH,
            private="demo/private.csv",
            public="demo/public.csv",
            domain="demo/domain.yaml",
        )
    )

    assert result.exit_code == 0, result.output
    assert len(pd.read_csv("out/synthetic.csv")) == 400

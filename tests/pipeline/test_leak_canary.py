"""Values planted in a private table are looked for in everything that many people can read."""

import json
import math
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jam_dagster.evaluation import workload_error
from jam_dagster.evaluation.verdict import mean_text
from jam_dagster.pipeline.storage.formats import CODES, ERRORS
from jam_dagster.privacy import Kind, Ledger
from jam_dagster.tables import Workload, encode, source_from_config
from tests.pipeline.canary_location import PAIRS, WEIGHTS
from tests.pipeline.conftest import DOMAIN, write_tables
from tests.tiers import gate

ROOT = Path(__file__).parents[2]

TEXT = "SENTINEL-7f3a"
NUMBER = 7331957.125


def plant(home: Path, *, fatal: dict[str, object] | None = None) -> None:
    """Plant values where a release copes with them, and one where it cannot."""
    write_tables(home)
    # A prime number of people: no share of theirs is a round number.
    table = pd.read_csv(home / "private.csv").head(397).astype({"age": "object"})
    # The domain counts this town as "elsewhere" and moves this age to its bounds; it does not
    # know the other columns.
    table.loc[3:9, "town"] = TEXT
    table.loc[10:12, ["age", "job"]] = [int(NUMBER), "none"]
    table["notes"] = f"{TEXT} likes tea"
    table["wealth"] = NUMBER
    for column, value in (fatal or {}).items():
        if column not in table:
            continue
        table[column] = table[column].astype("object")
        table.loc[20, column] = value
    table.to_csv(home / "private.csv", index=False)


def plant_households(home: Path, fatal: dict[str, object]) -> None:
    """Plant values in two tables, and in the keys by which persons belong to households."""
    plant(home, fatal=fatal)
    for side in ("private", "public"):
        persons = pd.read_csv(home / f"{side}.csv")
        keys = [f"{TEXT if side == 'private' else 'key'}-{place // 3}" for place in persons.index]
        # Whichever two of a household are drawn.
        persons.loc[18:20, "sex"] = persons.loc[20, "sex"]
        persons.assign(household=keys).to_csv(home / f"{side}_persons.csv", index=False)
        households = pd.DataFrame({"household": [*dict.fromkeys(keys)]}).assign(region="n")
        if side == "private":
            households = households.assign(notes=f"{TEXT} at home", wealth=NUMBER)
            households.loc[4:6, "region"] = TEXT
            if "household" in fatal:
                households.loc[7, "household"] = None
        households.to_csv(home / f"{side}.csv", index=False)


def run(
    home: Path,
    case: str,
    *,
    job: str = "people_release",
    partition: str | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run the whole job in a process of its own, on an instance that keeps everything."""
    (home / "case.json").write_text(json.dumps(case))
    instance = home / "dagster"
    instance.mkdir(exist_ok=True)
    (instance / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "dagster", "job", "execute"),
            *("-m", "tests.pipeline.canary_location", "-j", job),
            *(("--tags", json.dumps({"dagster/partition": partition})) if partition else ()),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "CANARY_HOME": str(home),
            "DAGSTER_HOME": str(instance),
            "DAGSTER_DISABLE_TELEMETRY": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    # What earlier runs said stays.
    for name, said in (("stdout", done.stdout), ("stderr", done.stderr)):
        with (home / "dagster" / f"{name}.txt").open("a") as file:
            file.write(said)
    return done


def contents(path: Path) -> bytes:
    """Return what a file holds, with what is packed in it unpacked."""
    held = path.read_bytes()
    if path.suffix == ".parquet":
        held += pd.read_parquet(path).to_csv().encode()
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            held += b"".join(arrays[name].tobytes() for name in arrays.files)
    return held


def planted_in(path: Path) -> bool:
    held = contents(path)
    needles = [TEXT.encode(), TEXT.encode("utf-16-le"), str(int(NUMBER)).encode()]
    needles += [struct.pack("<d", NUMBER), struct.pack("<d", int(NUMBER))]
    return any(needle in held for needle in needles)


def files(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def assert_no_leak(home: Path) -> None:
    looked_at = files(home / "dagster", home / "releases")
    assert {path.name for path in looked_at} >= {"stdout.txt", "stderr.txt"}
    assert any(path.suffix == ".db" for path in looked_at), "no event store was written"
    assert any("compute_logs" in path.parts for path in looked_at), "no compute log was written"
    leaked = [str(path.relative_to(home)) for path in looked_at if planted_in(path)]
    leaked += [str(path) for path in files(home) if TEXT in str(path)]
    assert not leaked
    ledger = home / "ledger.sqlite"
    assert not ledger.exists() or not planted_in(ledger)


def test_the_search_finds_what_is_planted(tmp_path: Path) -> None:
    plant(tmp_path)
    table = pd.read_csv(tmp_path / "private.csv")
    table.to_parquet(tmp_path / "table.parquet", compression="zstd")
    np.savez_compressed(tmp_path / "numbers.npz", wealth=table["wealth"].to_numpy())
    (tmp_path / "trace.txt").write_text(f"ValueError: could not convert {TEXT!r}")
    for name in ("private.csv", "table.parquet", "numbers.npz", "trace.txt"):
        assert planted_in(tmp_path / name), name
    assert not planted_in(tmp_path / "public.csv")


def assert_exact_errors_are_nowhere(home: Path) -> None:
    """In mode private only noisy means leave; the exact ones must not."""
    synthetic = pd.read_parquet(home / "releases" / "people" / "synthetic_records.parquet")
    exact = workload_error(
        source_from_config(str(home / "private.csv")).counted(DOMAIN, None, None),
        encode(synthetic, DOMAIN, private=False),
        CODES.read(home / "releases" / "people" / "public_discretized.codes.parquet"),
        Workload.of(DOMAIN, PAIRS, WEIGHTS),
        mode="exact",
    )
    assert exact.synthetic is not None
    assert exact.public is not None
    looked_at = {path: contents(path) for path in files(home / "dagster", home / "releases")}
    for error in (exact.synthetic, exact.public):
        for needle in forms(error.mean):
            found = [path for path, held in looked_at.items() if needle in held]
            assert not found, f"{found} tell an exact error"

    # Three decimals are too few to search for, and the largest error of a marginal is a fraction of
    # the rows, as shares of the synthetic table are: look where they are told. Only noisy ones are.
    noisy = ERRORS.read(home / "releases" / "people" / "workload_error.json")
    assert noisy.synthetic is not None
    assert noisy.public is not None
    assert noisy.synthetic.maximum is None
    assert noisy.public.maximum is None
    shown = {
        sentence
        for held in looked_at.values()
        for sentence in re.findall(_SENTENCE, _PLUS_MINUS.sub("±".encode(), held))
    }
    means = (mean_text(one, noisy.margin).encode() for one in (noisy.synthetic, noisy.public))
    assert shown == {tuple(means)}


_MEAN = r"(?:at most )?-?\d+\.\d+(?: ± \d+\.\d+)?"
# A page of Dagster's database may end within a number, which then has no mark after it.
_SENTENCE = f"mean error ({_MEAN}) against ({_MEAN})[,.:;]".encode()
# As JSON writes it, in JSON or not.
_PLUS_MINUS = re.compile(rb"\\+u00b1")


def forms(number: float) -> list[bytes]:
    """Return ways to write an error that no other number has: as a fraction and in percent.

    With eleven digits each, the few thousand random numbers in the files meet one of them in less
    than one run in a million; whatever is shorter is looked for by its sentence.
    """
    found = [struct.pack("<d", number)]
    for scaled in (number, 100 * number):
        rounded = f"{scaled:.{10 - math.floor(math.log10(scaled))}f}"
        assert len(repr(scaled)) >= len(rounded), "too short a number to look for"
        found += [rounded.encode(), repr(scaled)[: len(rounded)].encode()]
    return found


def test_the_search_finds_exact_errors_that_are_rounded() -> None:
    error = 0.123456987654321
    for text in (f"{error!r}", f"{error:.11f}", f"{error:.9%}", f"{error:.12%}"):
        assert any(needle in text.encode() for needle in forms(error)), text
    assert not any(needle in b"0.1234569 12.34569" for needle in forms(error))


@pytest.mark.gate
@pytest.mark.parametrize("case", ["identified", "exact"])
def test_success_leaks_nothing_in_other_modes(tmp_path: Path, case: str) -> None:
    plant(tmp_path)
    done = run(tmp_path, case)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_no_leak(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fatal",
    [
        {"sex": TEXT},
        *gate({"age": TEXT}, {"job": TEXT, "sex": None}),
    ],
)
def test_failure_leaks_nothing(tmp_path: Path, fatal: dict[str, object]) -> None:
    plant(tmp_path, fatal=fatal)
    done = run(tmp_path, "private")
    assert done.returncode != 0
    assert "The private table does not fit" in done.stderr
    assert_no_leak(tmp_path)


@pytest.mark.slow
def test_two_tables_leak_nothing(tmp_path: Path) -> None:
    plant_households(tmp_path, {})
    killed = run(tmp_path, "households", CANARY_STORES="3")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    assert_no_leak(tmp_path)
    done = run(tmp_path, "households")
    assert done.returncode == 0, done.stderr[-3000:]
    persons = pd.read_parquet(tmp_path / "releases" / "people" / "synthetic_persons.parquet")
    assert set(persons["town"]) <= {"Aix", "Bern", "Cork", "elsewhere"}
    assert not any(planted_in(path) for path in files(tmp_path / "closed"))
    assert_no_leak(tmp_path)


@pytest.mark.gate
@pytest.mark.parametrize("fatal", [{"sex": TEXT}, {"household": None}], ids=["value", "key"])
def test_two_tables_that_cannot_be_read_leak_nothing(
    tmp_path: Path, fatal: dict[str, object]
) -> None:
    plant_households(tmp_path, fatal)
    done = run(tmp_path, "households")
    assert done.returncode != 0
    assert "The private table does not fit" in done.stderr
    assert_no_leak(tmp_path)


@pytest.mark.gate
def test_unreadable_table_leaks_nothing(tmp_path: Path) -> None:
    plant(tmp_path)
    with (tmp_path / "private.csv").open("a") as file:
        # One row of too many cells, with a quote that never ends.
        file.write(f'F,Aix,none,3,"{TEXT},1,2,3,4,5,6\n{TEXT}\n')
    done = run(tmp_path, "private")
    assert done.returncode != 0
    assert_no_leak(tmp_path)


@pytest.mark.slow
def test_a_killed_run_and_the_one_that_resumes_it_leak_nothing(tmp_path: Path) -> None:
    plant(tmp_path)
    killed = run(tmp_path, "private", CANARY_STORES="3")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    assert_no_leak(tmp_path)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    before = {event.step for event in ledger.events() if event.kind == Kind.CHARGED}
    assert len(before) >= 3

    resumed = run(tmp_path, "private")
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    charged = [event.step for event in ledger.events() if event.kind == Kind.CHARGED]
    assert before < set(charged)
    assert len(charged) == len(set(charged))
    # Nothing of the private table is stored, in the private store neither.
    assert not any(planted_in(path) for path in files(tmp_path / "closed"))
    assert_no_leak(tmp_path)
    assert_exact_errors_are_nowhere(tmp_path)


@pytest.mark.gate
def test_snapshots_that_follow_each_other_leak_nothing(tmp_path: Path) -> None:
    """Tables of the project, each release drawn on the one before, until the budget runs out."""
    plant(tmp_path)
    for snapshot in ("first", "second"):
        done = run(tmp_path, "snapshots", partition=snapshot)
        assert done.returncode == 0, done.stderr[-3000:]
    refused = run(tmp_path, "snapshots", partition="third")
    assert "is left, rho" in refused.stderr
    # The files of both, and what the second was drawn on.
    names = {path.name for path in files(tmp_path / "releases")}
    assert {"first.csv", "second.csv", "second.codes.parquet", "public.codes.parquet"} <= names
    assert not any(planted_in(path) for path in files(tmp_path / "closed"))
    assert_no_leak(tmp_path)


@pytest.mark.gate
def test_retries_leak_nothing(tmp_path: Path) -> None:
    """The step that spends is never tried again by itself, and by hand until attempts end."""
    plant(tmp_path)
    table = pd.read_csv(tmp_path / "private.csv").drop(columns="age")
    table.to_csv(tmp_path / "private.csv", index=False)
    for _ in range(3):
        done = run(tmp_path, "private", job="retried_release")
        assert done.returncode != 0
        assert "STEP_UP_FOR_RETRY" not in done.stderr
        assert_no_leak(tmp_path)
        plant(tmp_path, fatal={"sex": TEXT})

    plant(tmp_path)
    done = run(tmp_path, "private")
    assert "did not end well" in done.stderr
    assert_no_leak(tmp_path)

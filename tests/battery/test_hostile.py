"""Whatever it is given, the package says so in an error of its own, charges nothing, tells nothing.

The quick tests take a hundred inputs of each kind, the slow ones a few hundred, and those of the
gate more than ten thousand.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from jam_dagster.common.yaml_text import parse_yaml, write_yaml
from jam_dagster.errors import DomainError, InputError, JamError, PrivateValuesError
from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.privacy import Budget, Ledger, SeededNoise
from jam_dagster.release import (
    EvaluationSpec,
    MechanismSpec,
    PrivacySpec,
    SynthesisRequest,
    WorkloadSpec,
    synthesize,
)
from jam_dagster.release.sections import DomainSpec
from jam_dagster.tables import (
    CsvSource,
    Domain,
    EncodedTable,
    decode,
    encode,
    source_from_config,
)
from jam_dagster.tables.codes.repair import repaired
from tests.battery import hostile
from tests.battery.hostile import NUMBER, TEXT, anything, garbled, pick, spoiled
from tests.budgets import PUBLIC_N
from tests.tiers import gate, slow

numbers = pytest.mark.parametrize(
    "number", [100, *slow(300), *gate(2_500)], ids=["quick", "slow", "many"]
)


def attempted(action: Callable[[], Any], what: object) -> Any:
    """Return what an action gives, or the package's own error; fail at any other."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return action()
    except JamError as error:
        return error
    except Exception as error:
        raise AssertionError(f"{what!a} raised {type(error).__name__}") from error


def message_of(error: BaseException) -> str:
    """Return everything that a traceback shows of an error and of those behind it."""
    frames = "".join(traceback.format_exception(error))
    return frames + repr(error) + str(vars(error))


def outcomes(number: int, attempt: Callable[[np.random.Generator, int], Any]) -> list[Any]:
    found = [attempt(np.random.default_rng([17, index]), index) for index in range(number)]
    refused = sum(isinstance(one, JamError) for one in found)
    # A generator whose inputs were all fine, or all refused, would test little.
    assert 0.02 * number < refused < 0.999 * number
    return found


@pytest.mark.slow
@numbers
def test_domains(number: int) -> None:
    def attempt(rng: np.random.Generator, index: int) -> Any:
        chance = 0.15 if index % 5 == 0 else 0.03
        content = anything(rng, 4) if index % 10 == 0 else spoiled(hostile.DOMAIN, rng, chance)
        made = attempted(lambda: Domain.from_dict(content), content)
        if isinstance(made, Domain):
            assert attempted(lambda: assert_rows_are_made(made, rng), content) is None
        return made

    for made in outcomes(number, attempt):
        if isinstance(made, Domain):
            assert Domain.from_dict(parse_yaml(write_yaml(made.to_dict()))).digest == made.digest


def assert_rows_are_made(domain: Domain, rng: np.random.Generator) -> None:
    """Repair, decode, encode and check a table of a domain, as a verifier of a release does."""
    for rows in (0, 1, 40):
        drawn = tuple(rng.integers(0, size, rows) for size in domain.shape)
        encoded = repaired(EncodedTable(domain, drawn), rng)
        table = decode(encoded, rng)
        assert {name: str(dtype) for name, dtype in table.dtypes.items()} == domain.columns
        if rows:
            again = encode(table, Domain(domain.attributes), private=False)
            assert all(map(np.array_equal, again.columns, encoded.columns))
        spoilt = table.assign(**{pick(rng, list(table)): "?"})
        for rule in domain.rules:
            assert checked(table, domain).broken(rule).shape == (rows,)
            checked(spoilt, domain).broken(rule)


def checked(table: pd.DataFrame, domain: Domain) -> CheckedTable:
    nothing: Any = None
    return CheckedTable(table, domain, len(table), nothing, nothing)


@numbers
def test_domain_files(number: int, tmp_path: Path) -> None:
    text = write_yaml(hostile.DOMAIN)

    def attempt(rng: np.random.Generator, index: int) -> Any:
        path = tmp_path / ("domain.json" if index % 7 == 0 else "domain.yaml")
        path.write_bytes(garbled(text, rng))
        load = (
            Domain.load if index % 2 else lambda path: DomainSpec.from_config(str(path), tmp_path)
        )
        return attempted(lambda: load(path), path.read_bytes())

    outcomes(number, attempt)


SPECS: dict[Callable[..., Any], dict[str, Any]] = {
    PrivacySpec: {"epsilon": 1.0, "delta": 1e-9, "noise": "exact", "seed": None, "edition": "1"},
    partial(MechanismSpec, "jam_pgm"): {
        "rounds": 3,
        "alpha": 0.8,
        "size_limit_mb": 1.0,
        "iterations": 3,
    },
    WorkloadSpec: {"degree": None, "cliques": [["age", "town"], ["code"]], "weights": [1, 2.5]},
    EvaluationSpec: {"mode": "private", "share": 0.05},
    Budget: {"epsilon": 1.0, "delta": 1e-9},
}


@numbers
def test_specifications(number: int) -> None:
    def attempt(rng: np.random.Generator, index: int) -> Any:
        spec = list(SPECS)[index % len(SPECS)]
        given = {
            name: anything(rng) if rng.random() < 0.25 else value
            for name, value in SPECS[spec].items()
        }
        return attempted(lambda: spec(**given), (spec, given))

    outcomes(number, attempt)


@numbers
def test_sources(number: int) -> None:
    valid = {"csv": "people.csv", "separator": ";", "decimal": ","}

    def attempt(rng: np.random.Generator, index: int) -> Any:
        config = anything(rng, 3) if index % 3 == 0 else spoiled(valid, rng, 0.2)
        return attempted(lambda: source_from_config(config), config)

    outcomes(number, attempt)


def assert_tells_nothing(error: JamError) -> None:
    said = message_of(error)
    for planted in (TEXT, str(int(NUMBER)), f"{int(NUMBER):,}"):
        assert planted not in said, said


@numbers
def test_private_tables(number: int) -> None:
    domain = Domain.from_dict(hostile.DOMAIN)

    def attempt(rng: np.random.Generator, index: int) -> Any:
        frame = hostile.table(rng)
        return attempted(lambda: encode(frame, domain, private=True), index)

    answers = set()
    for made in outcomes(number, attempt):
        if isinstance(made, JamError):
            assert_tells_nothing(made)
            assert type(made) in (DomainError, PrivateValuesError)
            if isinstance(made, PrivateValuesError):
                answers.add(message_of(made))
        else:
            assert isinstance(made, EncodedTable)
    assert len(answers) == 1


@numbers
def test_private_files(number: int, tmp_path: Path) -> None:
    domain = Domain.from_dict(hostile.DOMAIN)
    path = tmp_path / "people.csv"

    def attempt(rng: np.random.Generator, index: int) -> Any:
        path.write_bytes(garbled(valid_file(rng, bool(index % 2)), rng))
        source = CsvSource(str(path), decimal="," if index % 9 == 0 else ".")
        return attempted(
            lambda: encode(source.read(private=True), domain, private=True), path.read_bytes()
        )

    for made in outcomes(number, attempt):
        if isinstance(made, JamError):
            assert_tells_nothing(made)


@pytest.mark.slow
@numbers
def test_private_files_without_a_header(number: int, tmp_path: Path) -> None:
    """Their first record stands where the names are, and is quoted by no error."""
    domain = Domain.from_dict(hostile.DOMAIN)
    path = tmp_path / "people.csv"

    def attempt(rng: np.random.Generator, index: int) -> JamError:
        records = valid_file(rng, planted=True).splitlines()[1:]
        rng.shuffle(records)
        text = "\n".join([*records, ""])
        decimal, separator = "," if index % 2 else ".", ";" if index % 4 else ","
        if separator == ";":
            # As a spreadsheet of another country writes it, here and there with a point.
            text = text.replace(",", ";").replace(".", decimal, int(rng.integers(9)))
        path.write_bytes(text.encode() if index % 3 else garbled(text, rng))
        source = CsvSource(str(path), separator, decimal=decimal)
        made = attempted(
            lambda: encode(source.read(private=True), domain, private=True), path.read_bytes()
        )
        assert isinstance(made, JamError)
        return made

    for index in range(number):
        assert_tells_nothing(attempt(np.random.default_rng([19, index]), index))


def valid_file(rng: np.random.Generator, planted: bool) -> str:
    """Return a private file that has the domain's columns, and secrets in others or in a cell."""
    lines = ["age,income,town,member,code,notes"]
    for _ in range(4):
        row = [str(make(rng, 1)[0]) for make in hostile.COLUMNS.values()]
        lines.append(",".join([*row, TEXT]))
    if planted:
        lines.append(f"{NUMBER},10.5,{TEXT},True,2,x")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", [8, *gate(150)], ids=["quick", "many"])
def test_releases_of_hostile_files_charge_nothing(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way: what is refused was not charged, and what is charged was released."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jam_dagster.release.funding.make_noise", lambda *_: SeededNoise(0))
    Domain.from_dict(hostile.DOMAIN).save("domain.yaml")
    Path("public.csv").write_text(valid_file(np.random.default_rng(0), planted=False))
    ledger = Ledger("ledger.db")
    ledger.grant("people", epsilon=50.0, delta=1e-9, policy=PUBLIC_N, attempts=10_000)

    def attempt(rng: np.random.Generator, index: int) -> Any:
        text = valid_file(rng, planted=index % 3 == 0)
        Path("private.csv").write_bytes(garbled(text, rng) if index % 4 else text.encode())
        before = ledger.balance("people").spent_units
        made = attempted(lambda: synthesize(request(index)), index)
        charged = ledger.balance("people").spent_units - before
        assert (charged == 0) == isinstance(made, JamError)
        return made

    def request(index: int) -> SynthesisRequest:
        return SynthesisRequest.of(
            private=CsvSource("private.csv"),
            public=CsvSource("public.csv"),
            domain=Path("domain.yaml"),
            out=Path(f"out{index}"),
            epsilon=0.5,
            mechanism="jam_pgm",
            settings={"rounds": 1, "iterations": 1},
            degree=1,
            # Files have other numbers of records each.
            neighbours="add_remove",
            ledger="ledger.db",
            dataset="people",
            evaluation_mode="off",
            checks=False,
            report=False,
        )

    for made in outcomes(number, attempt):
        if isinstance(made, JamError):
            assert isinstance(made, InputError), message_of(made)
            assert_tells_nothing(made)


FOUND: dict[str, Callable[[], Any]] = {
    "an epsilon near the largest float": lambda: Budget(1e308, 1e-9),
    "an epsilon larger than any float": lambda: Budget(10**400, 1e-9),
    "an epsilon of a release larger than any float": lambda: PrivacySpec(epsilon=10**400),
    "rounds larger than any float": lambda: MechanismSpec("jam_pgm", rounds=10**400),
    "weights that are no list": lambda: WorkloadSpec(cliques=[["a"]], weights=False),  # type: ignore[arg-type]
    "an edge larger than any float": lambda: Domain.from_dict(
        {"attributes": {"a": {"edges": [0, 10**400]}}}
    ),
    "a bound larger than any float": lambda: Domain.from_dict(
        {"attributes": {"a": {"bounds": [0, 10**400], "bins": 2}}}
    ),
    "a text that claims to be a set": lambda: parsed("!!set a"),
}


def parsed(text: str) -> Any:
    try:
        return parse_yaml(text)
    except yaml.YAMLError as error:
        raise InputError(str(error)) from None


@pytest.mark.parametrize("action", FOUND.values(), ids=list(FOUND))
def test_what_was_found_before(action: Callable[[], Any]) -> None:
    with pytest.raises(InputError):
        action()


def test_numbers_of_numpy_are_numbers() -> None:
    assert Budget(np.int64(3), np.float32(1e-9)).rho == Budget(3.0, float(np.float32(1e-9))).rho  # type: ignore[arg-type]

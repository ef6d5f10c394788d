"""A mechanism that is given as an object: research alone, and found by its name from then on."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest

import jam_dagster as jam
from jam_dagster.certificates import verify
from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import MECHANISMS, Mechanism, make_mechanism
from jam_dagster.mechanisms.independent import Independent
from jam_dagster.mechanisms.registry import GIVEN, find_mechanism, title_of
from jam_dagster.release.options import release_spec
from jam_dagster.release.sections import MechanismSpec
from jam_dagster.release.synthesize import SynthesisRequest

TABLE = pd.DataFrame({"a": ["x", "y"] * 30, "b": ["u", "u", "v"] * 20})
GIVEN_TABLES: dict[str, Any] = {
    "private": TABLE,
    "domain": {"attributes": {"a": {"values": ["x", "y"]}, "b": {"values": ["u", "v"]}}},
    "epsilon": 1.0,
    "degree": 2,
}
RESEARCH: dict[str, Any] = {**GIVEN_TABLES, "noise": "numpy", "seed": 3}
LEDGER: dict[str, Any] = {"ledger": "ledger.db", "dataset": "people", "records_public": True}


@dataclass(frozen=True)
class Halves(Independent):
    """Each attribute, by somebody else."""

    name: ClassVar[str] = "halves"
    title: ClassVar[str] = "Halves"
    summary: ClassVar[str] = "each attribute, by somebody else"
    page: ClassVar[str] = "https://tiny.example/halves"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    GIVEN.clear()


def test_research_takes_an_object_and_the_process_finds_its_class() -> None:
    made = jam.synthesize(**RESEARCH, mechanism=Halves(iterations=7))
    assert made.transcript.mechanism == "halves"
    assert made.transcript.parameters["iterations"] == 7
    assert not made.releasable
    assert all(found.passed for found in made.verify())
    assert "halves" not in MECHANISMS
    assert title_of("halves") == "Halves"
    # Where the class is unknown the run cannot be made again, and the verifier says so.
    GIVEN.clear()
    failed = {found.name: found.message for found in verify(made.folder) if not found.passed}
    assert "has no mechanism halves" in str(failed["the mechanism"])


def test_an_object_of_a_mechanism_of_the_package_is_as_its_name() -> None:
    given = jam.synthesize(**RESEARCH, mechanism=Independent(iterations=7))
    named = jam.synthesize(**RESEARCH, mechanism="independent", settings={"iterations": 7})
    assert given.table.equals(named.table)
    assert GIVEN == {}


def test_an_object_of_the_package_is_made_again_of_its_settings() -> None:
    """A draw that was put into the object is not run."""

    def draw(ctx: object) -> None:
        raise AssertionError("the object's own draw ran")

    mechanism = Independent(iterations=7)
    object.__setattr__(mechanism, "draw", draw)
    made = MechanismSpec.of_object(mechanism)
    assert made.own
    assert made.build() == Independent(iterations=7)
    assert "draw" not in vars(made.build())
    object.__setattr__(made.mechanism, "draw", draw)
    assert "draw" not in vars(made.build())
    object.__setattr__(mechanism, "iterations", -5)
    with pytest.raises(SpecificationError, match="iterations"):
        MechanismSpec.of_object(mechanism)
    # Nor does one whose class changes, or whose section says that it is the package's.
    object.__setattr__(made.mechanism, "__class__", Halves)
    assert not made.own

    class Section(MechanismSpec):
        own = True

    with pytest.raises(SpecificationError):
        release_spec(private="p.csv", public="q.csv", mechanism=Section("aim"), epsilon=1.0)


def test_a_certificate_of_exact_noise_is_of_a_mechanism_of_the_package() -> None:
    made = jam.synthesize(**RESEARCH, mechanism=Halves(iterations=7), folder="out")
    assert find_mechanism("halves") is Halves
    certificate = json.loads(Path("out/certificate.json").read_text())
    certificate["noise"]["backend"] = "exact"
    Path("out/certificate.json").write_text(json.dumps(certificate))
    failed = {one.name: one.message for one in verify(made.folder) if not one.passed}
    assert "draws exactly for its own alone" in failed["the mechanism"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (GIVEN_TABLES, "halves comes from outside jam-dagster.* give noise='numpy'"),
        ({**GIVEN_TABLES, **LEDGER}, "halves comes from outside jam-dagster.* give noise='numpy'"),
        ({**RESEARCH, **LEDGER}, "A ledger pays for no mechanism of your own, halves"),
        ({**RESEARCH, "settings": {"iterations": 7}}, "is an object and has its settings"),
    ],
    ids=["exact", "ledger", "research with a ledger", "settings"],
)
def test_what_is_paid_takes_no_object(given: dict[str, Any], wanted: str) -> None:
    with pytest.raises(SpecificationError, match=wanted):
        jam.synthesize(**given, mechanism=Halves())
    assert list(Path.cwd().iterdir()) == []


def test_fields_are_settings() -> None:
    @dataclass(frozen=True)
    class Bare(Halves):
        k: int = 3

    with pytest.raises(SpecificationError, match=r"fields that are no settings: k; make them by"):
        Bare()


def test_a_releases_file_takes_no_object() -> None:
    Path("defs.yaml").write_text(
        "type: jam_dagster.SyntheticRelease\nattributes: {release: people, private: people.csv}\n"
    )
    with pytest.raises(SpecificationError, match="is a class: give an object of it, Halves"):
        jam.synthesize(**RESEARCH, mechanism=Halves)
    with pytest.raises(SpecificationError, match="file names its mechanism"):
        SynthesisRequest.of(Path("defs.yaml"), out=Path("out"), mechanism=Halves())


@dataclass(frozen=True)
class Taken(Halves):
    name: ClassVar[str] = "aim"


@dataclass(frozen=True)
class Slashed(Halves):
    name: ClassVar[str] = "in/halves"


class Undecorated(Halves):
    name: ClassVar[str] = "undecorated"


@dataclass(frozen=True)
class Nameless(Mechanism):
    title: ClassVar[str] = "Nameless"
    summary: ClassVar[str] = "none"
    page: ClassVar[str] = "none"
    check = draw = Halves.check  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("mechanism", "wanted"),
    [
        (Taken(), "Taken of the mechanism has the name of jam-dagster's own aim"),
        (Slashed(), "other characters than small letters"),
        (Nameless(), "lacks name"),
        (Undecorated(), "is not a dataclass of settings"),
        (make_mechanism("gaussian"), "answers marginals and makes no synthetic table"),
    ],
    ids=["taken", "slashed", "nameless", "undecorated", "samples none"],
)
def test_a_class_that_cannot_be_one_is_refused(mechanism: Mechanism, wanted: str) -> None:
    with pytest.raises(SpecificationError, match=wanted):
        jam.synthesize(**RESEARCH, mechanism=mechanism)
    assert find_mechanism("halves") is None

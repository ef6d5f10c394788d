"""Mechanisms are found: those of this package in its modules, those of others by entry points."""

from __future__ import annotations

import json
import re
from dataclasses import is_dataclass
from pathlib import Path

import pytest

from jam_dagster.benchmark.charts import line_styles
from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import MECHANISMS, Mechanism, make_mechanism, mechanism_class
from jam_dagster.mechanisms.configuration import synthesizing
from jam_dagster.mechanisms.registry import known_classes, title_of, unusable_mechanisms
from tests.cli_bench import run_cli
from tests.other_package import HALVES, PACKAGE, VERSION, install, known

OWN = list(MECHANISMS)


def test_mechanisms_of_this_package_are_found_in_their_order() -> None:
    in_order = [
        *("jam_pgm", "aim", "mwem_pgm", "mst", "independent", "gaussian", "pmw_pub", "mwem"),
        *("pep", "pep_pub", "gem", "gem_pub", "rap_softmax"),
    ]
    assert [name for name in OWN if name in in_order] == in_order
    assert {one.package for one in MECHANISMS.values()} == {"jam-dagster"}
    assert all(one.own for one in MECHANISMS.values())
    assert MECHANISMS["aim"].place == "jam_dagster.mechanisms.aim:Aim"
    assert not unusable_mechanisms()


@pytest.mark.parametrize("name", OWN)
def test_every_class_says_what_people_read_about_it(name: str) -> None:
    found = mechanism_class(name)

    assert is_dataclass(found)
    for attribute in Mechanism.__annotations__:
        assert hasattr(found, attribute), f"{found.__name__} states no {attribute}: see `Mechanism`"
    for attribute in ("title", "rank", "summary"):
        same = [
            one.name
            for one in known_classes().values()
            if vars(one)[attribute] == vars(found)[attribute]
        ]
        assert same == [name], f"{' and '.join(same)} state one {attribute}"


def test_a_mechanism_of_another_package_is_found_by_name(tmp_path: Path) -> None:
    with known(install(tmp_path / "site")):
        assert list(MECHANISMS) == [*OWN, "halves"]
        found = MECHANISMS["halves"]
        assert (found.package, found.version, found.own) == (PACKAGE, VERSION, False)
        assert make_mechanism("halves", iterations=3).parameters()["iterations"] == 3
        assert title_of("halves") == "Halves"
        assert "halves" in synthesizing()
        assert {one.title for one in line_styles([("Halves", "halves")])} == {"Halves"}
        answer = json.loads(run_cli("mechanisms", "--json").stdout)["halves"]
        assert answer["package"] == f"{PACKAGE} {VERSION}"
        assert answer["page"] == "https://tiny.example/halves"
    assert list(MECHANISMS) == OWN
    assert title_of("halves") == "halves"


def test_a_name_that_is_taken_is_refused_with_both_packages(tmp_path: Path) -> None:
    source = HALVES.replace('"halves"', '"aim"')
    with known(install(tmp_path, name="aim", place="tiny_taken:Halves", source=source)):
        with pytest.raises(SpecificationError) as refused:
            make_mechanism("aim")
        assert "jam-dagster (jam_dagster.mechanisms.aim:Aim)" in str(refused.value)
        assert "tiny-mechanisms (tiny_taken:Halves)" in str(refused.value)
        assert "Uninstall tiny-mechanisms" in str(refused.value)
        # The others are as they were.
        assert make_mechanism("mst").name == "mst"
        listed = run_cli("mechanisms")
        assert listed.exit_code == 0
        assert "Left out: Two packages provide the mechanism aim: jam-dagster" in listed.stderr
    assert make_mechanism("aim").name == "aim"


def test_two_other_packages_may_not_share_a_name_either(tmp_path: Path) -> None:
    install(tmp_path)
    with (
        known(install(tmp_path, package="another")),
        pytest.raises(SpecificationError, match=r"another .* and tiny-mechanisms"),
    ):
        make_mechanism("halves")


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that"),
        ("raise SystemError('broken')", "SystemError: broken"),
        ("", "AttributeError: module .* has no attribute 'Halves'"),
        ("Halves = 3", "is not a dataclass of settings"),
        (HALVES.replace('"halves"', '"thirds"'), "has the name 'thirds'"),
        (HALVES.replace("(Independent)", ""), "is not a subclass of jam_dagster.*Mechanism"),
        (HALVES.replace("    page: ClassVar", "    leaf: ClassVar").replace(
            "mechanisms.independent import", "mechanisms import").replace(
            "Independent", "Mechanism"), "lacks check, draw, page"),
    ],
    ids=["import", "raises", "nothing", "value", "name", "another", "lacks"],
)  # fmt: skip
def test_what_cannot_be_loaded_is_told_with_its_package(
    tmp_path: Path, request: pytest.FixtureRequest, source: str, wanted: str
) -> None:
    module = f"tiny_{request.node.callspec.id}"
    with known(install(tmp_path, place=f"{module}:Halves", source=source)):
        expected = rf"The mechanism halves of the package tiny-mechanisms 1\.2\.3 .*{wanted}"
        with pytest.raises(SpecificationError, match=expected) as refused:
            make_mechanism("halves")
        assert re.search("[Rr]epair or uninstall tiny-mechanisms", str(refused.value))
        # It keeps nobody from the other mechanisms.
        assert "halves" in MECHANISMS
        assert "halves" not in synthesizing()
        assert list(unusable_mechanisms()) == ["halves"]


def test_a_name_must_do_for_assets_and_files(tmp_path: Path) -> None:
    source = HALVES.replace('"halves"', '"in/halves"')
    place = "tiny_named:Halves"
    with (
        known(install(tmp_path, name="in/halves", place=place, source=source)),
        pytest.raises(SpecificationError, match="small letters, digits and '_'"),
    ):
        make_mechanism("in/halves")


def test_an_unknown_mechanism_may_be_one_that_is_not_installed() -> None:
    with pytest.raises(SpecificationError, match="of another package, install the package"):
        make_mechanism("halves")

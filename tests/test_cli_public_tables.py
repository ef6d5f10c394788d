"""`jam-dagster synthesize` with several public tables, and with one that lacks attributes."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.cli_bench import QUICK, RELEASE, RESEARCH, Run, synthesize, without

SEVERAL = ("--public", "census=part.csv", "--public", "survey=pub.csv")


def several(*options: object) -> list[object]:
    """Return the arguments of a synthesis with two public tables, the first without income."""
    frame = pd.read_csv("pub.csv")
    frame.drop(columns="income").to_csv("part.csv", index=False)
    return [*without(synthesize(*options), "--public"), *SEVERAL]


@pytest.mark.slow
def test_one_public_table_that_lacks_attributes(run: Run) -> None:
    pd.read_csv("pub.csv").drop(columns="income").to_csv("part.csv", index=False)

    refused = run(*synthesize(*RESEARCH, public="part.csv"))
    assert refused.exit_code != 0
    assert "income" in refused.stderr
    assert "--public NAME=TABLE" in refused.stderr
    # What weighs the records of one whole table takes none by name.
    given = synthesize(*RESEARCH, "--mechanism", "pmw_pub", public="part.csv")
    weighs = run(*without(given, "iterations=20"))
    assert "income" in weighs.stderr
    assert "NAME=TABLE" not in weighs.stderr

    result = run(*synthesize(*RESEARCH, public="census=part.csv"))
    assert result.exit_code == 0, result.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--public", "part.csv"), "each needs a name"),
        (("--public", "Part=part.csv"), "each needs a name"),
        (("--public", "survey=part.csv"), "the same name"),
        (("--public", "third=missing.csv"), "Public table 'third'"),
        (("--public", "third=empty.csv"), "Public table 'third' has no rows"),
        (("--public", "third=strange.csv"), "Public table 'third' has no column of the domain"),
    ],
)
def test_what_is_wrong_with_a_table_is_told(
    run: Run, options: tuple[str, ...], expected: str
) -> None:
    arguments = several(*RESEARCH, *options)
    pd.DataFrame(columns=["age"]).to_csv("empty.csv", index=False)
    pd.DataFrame({"colour": [1]}).to_csv("strange.csv", index=False)

    result = run(*arguments)

    assert result.exit_code != 0
    assert expected in " ".join(result.stderr.split())
    assert not Path("out").exists()


@pytest.mark.slow
def test_a_plan_is_tried_on_the_first_that_has_all_attributes(run: Run) -> None:
    several()
    quick = (*QUICK[:-1], "--epsilon", "1", "--json")
    result = run("plan", *SEVERAL, "--domain", "domain.json", "--seeds", "1", *quick)

    assert result.exit_code == 0, result.output
    assert any("tables survey was tried" in note for note in json.loads(result.stdout)["notes"])

    result = run("plan", *SEVERAL[:2], "--domain", "domain.json", *quick)
    assert result.exit_code == 2
    assert "none has them of census" in " ".join(result.stderr.split())

    result = run("plan", "--public", "nowhere.csv", "--domain", "domain.json", *quick)
    assert result.exit_code == 2
    assert "nowhere.csv" in result.stderr


@pytest.mark.slow
def test_a_path_that_looks_like_a_name_and_a_table(run: Run) -> None:
    Path("year=2016").mkdir()
    Path("pub.csv").rename("year=2016/pub.csv")
    result = run(*synthesize(*RESEARCH, public="year=2016/pub.csv"))
    assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_a_model_made_of_several_tables_is_refitted_with_them(run: Run) -> None:
    arguments = without(several(*RELEASE, "--mechanism", "gem_pub"), "iterations=20", "rounds=2")
    given = {"rounds": 2, "iterations": 20, "pretraining_iterations": 20}
    settings = [f"--setting={key}={value}" for key, value in given.items()]
    made = run(*arguments, *settings)
    assert made.exit_code == 0, made.output

    found = run("certificate", "verify", "out", "--ledger", "ledger.db", *SEVERAL)

    assert found.exit_code == 0, found.output
    assert "pass  the model, refitted" in found.stdout

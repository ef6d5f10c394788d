"""The study of the demo's households prints its lines, in the order that the truth gives them."""

from __future__ import annotations

import pytest

from benchmarks.survey_households import main


@pytest.mark.slow
def test_tables_to_compare_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--mechanism", "--seeds", "1"]) == 0
    lines = [one.rsplit(None, 2) for one in capsys.readouterr().out.splitlines()[1:]]
    numbers = {name: (float(persons), float(pairs)) for name, persons, pairs in lines}
    assert list(numbers) == ["public", "independent", "a sample"]
    assert numbers["independent"][0] == 0.0
    assert numbers["a sample"][1] < numbers["public"][1] < numbers["independent"][1]

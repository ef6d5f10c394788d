"""A mechanism that fails in the middle, in a step of Dagster: what is told, and what is paid."""

import errno
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from jam_dagster.mechanisms import Transcript
from jam_dagster.models.graphical.mirror_descent import MirrorDescent
from jam_dagster.privacy import DirectoryStore
from jam_dagster.privacy.noise.exact import ExactNoise
from jam_dagster.reports.budget_over_rounds import Spending
from jam_dagster.tables import EncodedTable
from tests.pipeline.conftest import UP_TO_SYNTHETIC, Bench, failure
from tests.tiers import gate

SENTINEL = "SENTINEL-55e1"

# Where it fails, at which call, with what, and whether a draw that was charged is lost by it.
PLACES: dict[str, tuple[type, str, int, Callable[[], BaseException], bool]] = {
    "counting": (EncodedTable, "marginals", 1, lambda: MemoryError(SENTINEL), False),
    "drawing a selection": (ExactNoise, "select", 2, lambda: ValueError(SENTINEL), True),
    "drawing a measurement": (ExactNoise, "gaussian_counts", 2, lambda: KeyError(SENTINEL), True),
    "storing an outcome": (
        DirectoryStore,
        "put",
        3,
        lambda: OSError(errno.ENOSPC, SENTINEL, SENTINEL),
        True,
    ),
    "fitting": (MirrorDescent, "add", 2, lambda: RuntimeError(SENTINEL), False),
    "being interrupted": (MirrorDescent, "add", 2, KeyboardInterrupt, False),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    [
        *gate("counting", "drawing a selection"),
        *("drawing a measurement", "storing an outcome", "fitting", "being interrupted"),
    ],
)
def test_a_run_that_fails_in_the_middle_tells_nothing_and_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], place: str
) -> None:
    # A public table unlike the private one: every round measures the private one.
    public = pd.read_csv(bench.public).assign(sex="F", town="Aix", job="none", age=3)
    public.to_csv(bench.public, index=False)
    owner, name, at, error, lost = PLACES[place]
    real, calls = getattr(owner, name), []

    def failing(*args: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == at:
            # As libraries do: the message quotes what is in hand, and a cause does too.
            try:
                raise ArithmeticError(f"{SENTINEL} {args!r}")
            except ArithmeticError as cause:
                raise error() from cause
        return real(*args, **named)

    monkeypatch.setattr(owner, name, failing)
    failed = bench.run(UP_TO_SYNTHETIC)
    monkeypatch.setattr(owner, name, real)
    said = failure(failed)
    assert len(calls) == at
    logged = "\n".join(str(entry) for entry in bench.instance.all_logs(failed.run_id))
    printed = capfd.readouterr()
    for text in (said, logged, printed.out, printed.err):
        assert SENTINEL not in text
        assert "ArithmeticError" not in text
    if place == "storing an outcome":
        assert "No space left on device" in said
    if place == "fitting":
        assert "PrivateStepError" in said
    assert "returned" not in bench.kinds()
    charged = [event.step for event in bench.events() if event.kind.value == "charged"]

    result = bench.run(UP_TO_SYNTHETIC)
    assert result.success, failure(result)
    steps = [event.step for event in bench.events() if event.kind.value == "charged"]
    assert steps[: len(charged)] == charged
    assert len(set(steps)) == len(steps)
    assert bench.kinds().count("reserved") == 1
    transcript = Transcript.load(bench.releases / "people" / "jam_pgm.run" / "transcript")
    assert (Spending.of(transcript).lost > 0) == lost
    assert bench.ledger.balance("people").spent == pytest.approx(transcript.rho_spent)
    bench.ledger.verify()

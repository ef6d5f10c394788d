"""A model that another processor fitted: it is fitted as that one does, and counts only then."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from jam_dagster.certificates import refitting, verify
from jam_dagster.certificates.issue import environment
from jam_dagster.certificates.refitting import (
    PROCESSORS,
    REFIT_TOLERANCE,
    Nearness,
    Refit,
)
from jam_dagster.mechanisms import FittedModel, Transcript
from jam_dagster.models.graphical import kernels
from jam_dagster.tables import Domain, Workload
from tests.certificates.conftest import Released

needs_openblas = pytest.mark.skipif(
    platform.machine() != "x86_64" or kernels.blas_architecture() in ("none", "unknown"),
    reason="NumPy computes without OpenBLAS here, or on a processor of one kind only",
)


def refit_of(made: Released, **made_with: str) -> Refit:
    return Refit(
        Transcript.load(made.folder / "transcript"),
        domain := Domain.load(made.folder / "domain.yaml"),
        Workload.specified(domain, made.certificate.specification["workload"]),
        None,
        made_with,
    )


def test_what_decides_a_fit_is_in_the_certificate(made: Released) -> None:
    made_with = made.certificate.made_with
    assert made_with["blas"] == kernels.blas_architecture()
    assert made_with["simd"].split() == kernels.simd_extensions()
    assert environment() == made_with


def test_a_model_that_is_the_same_here_is_fitted_nowhere_else(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refitting, "_nearness_elsewhere", lambda *_: pytest.fail("not needed"))
    assert refit_of(made).closest(FittedModel.load(made.folder / "model")) == (0.0, 0, "")


def test_the_recorded_processor_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "blas_architecture", lambda: "SkylakeX")
    monkeypatch.setattr(kernels, "simd_extensions", lambda: ["X86_V3", "X86_V4"])
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    tried = list(refitting._other_processors({"blas": "Zen", "simd": "X86_V3"}))
    assert tried[0] == ("Zen", {"OPENBLAS_CORETYPE": "Zen", "NPY_DISABLE_CPU_FEATURES": "X86_V4"})
    assert [name for name, _ in tried] == ["Zen", *(one for one in PROCESSORS if one != "Zen")]
    # What fitted a model that was never certified is unknown.
    tried = list(refitting._other_processors({}))
    assert [name for name, _ in tried] == [one for one in PROCESSORS if one != "SkylakeX"]
    assert all(list(variables) == ["OPENBLAS_CORETYPE"] for _, variables in tried)
    # Nobody's variables come from a certificate.
    forged = {"blas": "Zen\nLD_PRELOAD=x", "simd": "x"}
    assert {name for name, _ in refitting._other_processors(forged)} <= set(PROCESSORS)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert list(refitting._other_processors({})) == []


HOSTILE = "from pathlib import Path; Path(__file__).with_name('ran').touch(); raise SystemExit"


def test_a_module_beside_a_release_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither from the working directory, nor from a place on the path that is relative to it."""
    for name in ("jam_dagster", "numpy", "pickle", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "."]))
    monkeypatch.setattr(sys, "path", ["", ".", *sys.path])
    assert refitting._nearness_elsewhere(b"no work", {}, 300.0) is None
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
@needs_openblas
def test_a_fit_in_another_process_is_as_far_as_in_this_one(made: Released) -> None:
    import pickle

    work = pickle.dumps((refit_of(made)._given, FittedModel.load(made.folder / "model")))
    assert refitting._nearness_elsewhere(work, {}, 300.0) == (0.0, 0, "")
    assert refitting._nearness_elsewhere(b"no work", {}, 300.0) is None
    assert refitting._nearness_elsewhere(work, {}, 1e-3) is None


def test_a_model_of_another_processor_passes_and_says_so(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processor that fitted it is not here: what its fit comes to is."""
    monkeypatch.setattr(FittedModel, "distance", lambda *_: 0.07)
    asked: list[str] = []

    def elsewhere(work: bytes, variables: dict[str, str], seconds: float) -> Nearness:
        asked.append(variables["OPENBLAS_CORETYPE"])
        return Nearness(REFIT_TOLERANCE / 2 if asked[-1] == "Nehalem" else 0.07, 0)

    monkeypatch.setattr(refitting, "_nearness_elsewhere", elsewhere)
    monkeypatch.setattr(
        refitting,
        "_other_processors",
        lambda made_with: ((name, {"OPENBLAS_CORETYPE": name}) for name in PROCESSORS),
    )
    (found,) = (one for one in verify(made.folder) if one.name == "the model, refitted")
    assert found.passed
    assert "of 1e-06 allowed; fitted as on a processor of the kind Nehalem" in found.message
    assert asked[-1] == "Nehalem"

    monkeypatch.setattr(refitting, "_nearness_elsewhere", lambda *_: None)
    (found,) = (one for one in verify(made.folder) if one.name == "the model, refitted")
    assert not found.passed

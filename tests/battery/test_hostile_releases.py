"""Releases as `defs.yaml` gives them: this package, or Dagster, says what is wrong with them."""

from __future__ import annotations

import traceback
import warnings
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pydantic
import pytest
import yaml
from dagster.components.resolved.errors import ResolutionException

import jam_dagster
from jam_dagster.errors import JamError
from jam_dagster.pipeline import SyntheticRelease, build_synthetic_release
from jam_dagster.release.sections import DomainSpec
from jam_dagster.tables import source_from_config
from tests.battery.hostile import DOMAIN, garbled, spoiled
from tests.tiers import gate

RELEASE: dict[str, Any] = {
    "release": "people",
    "dataset": "people",
    "private": {"csv": "private_{partition}.csv", "separator": ";"},
    "public": "public.csv",
    "domain": DOMAIN,
    "privacy": {"epsilon": 2.0, "delta": "1e-9", "edition": 2},
    "mechanism": {"name": "jam_pgm", "rounds": 2, "iterations": 20, "alpha": 0.7},
    "workload": {"cliques": [["age", "town"], ["code"]], "weights": [1, 2.5]},
    "evaluation": {"mode": "private", "share": 0.1},
    "partitions": "monthly",
    "start": "2026-01",
    "schedule": "0 6 3 * *",
    "owners": ["team:statistics"],
    "tags": {"domain": "census"},
}
PACKAGE = Path(jam_dagster.__file__).parent
TOLD_BY_DAGSTER = (pydantic.ValidationError, yaml.YAMLError, dg.DagsterError)


def built(release: SyntheticRelease) -> dg.Definitions:
    """Build a release's definitions, as the component does."""
    return build_synthetic_release(
        release.release,
        dataset=release.dataset,
        private=source_from_config(release.private),
        public=source_from_config(release.public),
        domain=DomainSpec.from_config(release.domain, Path()),
        privacy=release.privacy,
        mechanism=release.mechanism,
        workload=release.workload,
        evaluation=release.evaluation,
        partitions=release.partitions,
        start=release.start,
        schedule=release.schedule,
        owners=release.owners,
        tags=release.tags,
    )


def outcome(rng: np.random.Generator, text: str, *, as_text: bool) -> str:
    """Return "made", or whose error it was."""
    try:
        if as_text:
            given = garbled(text, rng).decode("utf-8", "replace")
            release = SyntheticRelease.resolve_from_yaml(given)
        else:
            spoiled_release = spoiled(RELEASE, rng, 0.01)
            if not isinstance(spoiled_release, dict):
                return "dagster"
            release = SyntheticRelease.resolve_from_dict(spoiled_release)
        built(release)
    except JamError:
        return "jam_dagster"
    except ResolutionException as error:
        # Dagster wraps what a specification raises, and shows it.
        return "jam_dagster" if "jam_dagster.errors." in str(error) else "dagster"
    except TOLD_BY_DAGSTER:
        return "dagster"
    except Exception as error:
        # Dagster's reader of YAML breaks by itself on keys such as `? {a: b}`.
        frames = traceback.extract_tb(error.__traceback__)
        if any(PACKAGE in Path(frame.filename).parents for frame in frames):
            raise
        return "dagster"
    return "made"


@pytest.mark.slow
@pytest.mark.parametrize("number", [150, *gate(2_000)], ids=["quick", "many"])
def test_releases(number: int) -> None:
    text = yaml.safe_dump(RELEASE, sort_keys=False)
    with warnings.catch_warnings():
        # Dagster marks some of its own classes as beta.
        warnings.simplefilter("ignore")
        built(SyntheticRelease.resolve_from_yaml(text))
        found = [
            outcome(np.random.default_rng([17, index]), text, as_text=bool(index % 2))
            for index in range(number)
        ]
    assert set(found) == {"made", "jam_dagster", "dagster"}

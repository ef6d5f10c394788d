"""Checks that a file of noisy workload errors says what follows from their draw, and no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates.outcome_faults import means_in
from jam_dagster.evaluation.workload_error import noisy_errors
from jam_dagster.privacy.ledger.key import canonical_json

if TYPE_CHECKING:
    from jam_dagster.privacy import NoiseCall
    from jam_dagster.tables import MarginalSource, Workload


def error_faults(
    errors: Mapping[str, Any],
    call: NoiseCall,
    synthetic: MarginalSource,
    workload: Workload,
    records: int,
    run: str,
) -> Iterator[str]:
    """Yield the parts of a file of errors that do not follow from the means that were drawn.

    `run` is the digest of the release's run, which Dagster's files have.
    """
    follows = noisy_errors(means_in(errors), call, synthetic, workload, records)
    wanted: dict[str, Any] = {
        "mode": follows.mode,
        "sigma": follows.sigma,
        "rho": follows.rho,
        "sample_equivalent": follows.sample_equivalent,
        "equivalent_within": follows.equivalent_within,
        **follows.to_dict(),
    }
    beside: dict[str, Any] = {"call": call.to_dict(), "run": run}
    wanted |= {name: value for name, value in beside.items() if name in errors}
    stated, wanted = _filled(errors), _filled(wanted)
    for name in sorted(stated.keys() | wanted.keys()):
        if canonical_json(stated.get(name)) != canonical_json(wanted.get(name)):
            yield f"{name} does not follow from the means that were drawn"


def _filled(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without what is None."""
    return {
        name: _filled(value) if isinstance(value, Mapping) else value
        for name, value in content.items()
        if value is not None
    }

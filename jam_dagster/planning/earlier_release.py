"""The fit of the next release's domain, by the measurements of an earlier release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jam_dagster.certificates.certificate import DAMAGE
from jam_dagster.errors import InputError
from jam_dagster.evaluation.domain_fit import (
    column_fits,
    misfit_sentence,
    remedy_sentence,
    unknown_sentences,
)
from jam_dagster.release.run import read_run

if TYPE_CHECKING:
    from pathlib import Path

    from jam_dagster.release.run import ReleaseRun
    from jam_dagster.tables import EncodedTable


def read_earlier(folder: Path) -> ReleaseRun:
    """Return the run of an earlier release from its folder.

    Raises
    ------
    InputError
        The folder holds no whole run, or one that may not leave.
    """
    try:
        run = read_run(folder)
    except (OSError, InputError, *DAMAGE):
        raise InputError(
            f"--earlier {folder} holds no release: name the folder that --out named, or that of"
            " the mechanism's asset. It has the file run.json."
        ) from None
    if run.model.domain.restricted or not run.transcript.releasable:
        raise InputError(
            f"--earlier {folder} is not releasable, so a plan cannot show what it measured: name"
            " a release with exact noise and a public domain."
        )
    return run


def domain_fit(earlier: ReleaseRun, public: EncodedTable) -> tuple[list[str], list[str]]:
    """Return warnings and notes on how the next domain fits, by what was released earlier.

    Parameters
    ----------
    earlier
        The run of the earlier release.
    public
        The public table, encoded over the domain of the next release. A column that this domain
        declares otherwise than the earlier one has no measurement.
    """
    then = {one.name: one for one in earlier.model.domain.attributes}
    same = [one.name for one in public.domain.attributes if then.get(one.name) == one]
    found = [] if not same else column_fits(earlier.transcript, public.domain.project(same), public)
    changed = [one.name for one in public.domain.attributes if one.name not in same]
    warnings, notes = [], []
    if misfit := misfit_sentence(found):
        warnings.append(f"The earlier release shows a misfit. {misfit} {remedy_sentence(found)}")
    elif any(one.shares and not one.unknown for one in found):
        notes.append("The earlier release shows no misfit of the domain.")
    notes += [f"By the earlier release: {sentence}" for sentence in unknown_sentences(found)]
    if changed:
        notes.append(
            f"The earlier release does not have these columns as they are declared now:"
            f" {', '.join(changed)}."
        )
    return warnings, notes

"""Mechanisms and models by name: what configuration, transcripts and stored models refer to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.mechanisms.loops.settings import settings_of

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.mechanisms.base import Mechanism
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.models.base import Model
    from jam_dagster.tables import Domain, MarginalSource

MECHANISMS: Mapping[str, str] = {
    "jam_pgm": "jam_pgm.JamPgm",
    "aim": "aim.Aim",
    "mwem_pgm": "mwem_pgm.MwemPgm",
    "mst": "mst.Mst",
    "independent": "independent.Independent",
    "gaussian": "gaussian.Gaussian",
    "pmw_pub": "pmw_pub.PmwPub",
    "mwem": "mwem.Mwem",
    "pep": "pep.Pep",
    "pep_pub": "pep.PepPub",
    "gem": "gem.Gem",
    "gem_pub": "gem.GemPub",
    "rap_softmax": "rap_softmax.RapSoftmax",
}
"""Name to module and class, imported when asked for: some bring heavy libraries."""

MODELS: Mapping[str, str] = {
    "graphical": "graphical.model.FittedModel",
    "answers": "measured_answers.MeasuredAnswers",
    "weighted_table": "weighted.model.WeightedTable",
    "product_mixture": "mixture.model.ProductMixture",
}
"""Kind of a stored model to module and class."""

DEFAULT_MECHANISM = "jam_pgm"


def _imported(package: str, place: str) -> Any:
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"jam_dagster.{package}.{module}"), name)


def mechanism_class(name: str) -> type[Mechanism]:
    """Return the class of a mechanism.

    Raises
    ------
    SpecificationError
        If there is none of that name.
    """
    if name not in MECHANISMS:
        raise SpecificationError(
            f"The mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}."
        )
    found: type[Mechanism] = _imported("mechanisms", MECHANISMS[name])
    return found


def known_classes() -> dict[str, type[Mechanism]]:
    """Return the classes of all mechanisms by name, in their order."""
    return {name: mechanism_class(name) for name in MECHANISMS}


def title_of(name: str) -> str:
    """Return what a mechanism is called; one that is not registered by its own name."""
    found = known_classes().get(name)
    return name if found is None else found.title


def make_mechanism(name: str = DEFAULT_MECHANISM, **settings: Any) -> Mechanism:
    """Return the mechanism of that name.

    Parameters
    ----------
    name
        One of `MECHANISMS`.
    settings
        What differs from the mechanism's defaults.

    Raises
    ------
    SpecificationError
        If there is none of that name, it has no such setting, or a value is out of range.
    """
    found = mechanism_class(name)
    known = settings_of(found)
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise SpecificationError(
            f"{unknown[0]} is no setting of {name}; it has {', '.join(known) or 'none'}."
        )
    return found(**settings)


def refit(transcript: Transcript, domain: Domain, public: MarginalSource | None = None) -> Model:
    """Rebuild the model of a transcript, without private data and without cost.

    Parameters
    ----------
    transcript
        A whole transcript.
    domain
        The domain that it refers to.
    public
        The public table of the run, for mechanisms whose model is made of its records.

    Returns
    -------
    Model
        The model that the run returned: the same fits in the same order.

    Raises
    ------
    DomainError
        If `domain` is not the transcript's, or a public table is needed and not given.
    InputError
        If the transcript does not say how the model was fitted.
    """
    if domain.digest != transcript.domain_digest:
        raise DomainError(
            "This transcript belongs to another domain "
            f"(digest {transcript.domain_digest[:12]}, given {domain.digest[:12]}); "
            "give the domain that was stored with it."
        )
    return mechanism_class(transcript.mechanism).refit(transcript, domain, public)


def load_model(directory: Path | UPath) -> Model:
    """Read a model that its `save` wrote, whichever kind it is.

    Raises
    ------
    InputError
        If the folder does not hold a model.
    """
    path = directory / "model.json"
    if not path.exists():
        raise InputError(f"{directory} holds no model.json; give a folder that save() wrote.")
    try:
        kind = json.loads(path.read_text()).get("kind", "graphical")
        place = MODELS[kind]
    except (ValueError, KeyError, AttributeError) as damaged:
        raise InputError(
            f"The model in {directory} is damaged, or of a kind that this version does not know; "
            "refit it from its transcript, or restore the folder."
        ) from damaged
    model: Model = _imported("models", place).load(directory)
    return model

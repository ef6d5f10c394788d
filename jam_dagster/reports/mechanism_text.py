"""Sentences of a report about a mechanism's run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.mechanisms.registry import find_mechanism, mechanism_class, title_of

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript


def chooses_source(mechanism: str) -> bool:
    """Return whether a mechanism chooses between the public and the private table."""
    found = find_mechanism(mechanism)
    return found is not None and found.chooses_source


def picks_text(mechanism: str, picks: Mapping[str, int]) -> str:
    """Return the number of rounds by source; only the total if the mechanism has no choice."""
    numbers = {origin: f"{number} {origin}" for origin, number in picks.items()}
    if not chooses_source(mechanism):
        numbers = {**numbers, "private": str(picks["private"])}
        del numbers["public"]
    *first, last = numbers.values()
    return f"{', '.join(first)} and {last}" if first else last


def rounds_text(transcript: Transcript) -> str:
    """Describe the rounds, and why the run ended."""
    title = title_of(transcript.mechanism)
    ended = f"It ended with: {transcript.ended}."
    if chooses_source(transcript.mechanism):
        return (
            f"In each round the mechanism ({title}) chose, with noise, the marginal about which "
            "its model was most wrong, and whether to measure it with noise in the private table "
            "or to take it from the public table, which costs nothing but may be biased. Then it "
            f"refitted the model. {ended}"
        )
    if not mechanism_class(transcript.mechanism).reads_values:
        return (
            f"From the private table the mechanism ({title}) read the number of records, "
            "and no value. "
            "Its model is that of the public table, which costs nothing but may be biased. "
            f"{ended}"
        )
    chosen = (
        " If the choice was charged, the mechanism chose with noise a marginal with a large "
        "error of the model."
        if any(one.rho_select > 0 for one in transcript.rounds)
        else ""
    )
    public = (
        " It also learned from the public table, which costs nothing but may be biased."
        if _learns(transcript)
        else _uniform_text(transcript)
    )
    return (
        f"In each round the mechanism ({title}) measured a marginal of the private table, or a "
        f"part of one, with noise, and refitted its model.{chosen}{public} {ended}"
    )


def learns_from_public(mechanism: str, recorded: Mapping[str, Any]) -> bool:
    """Return whether a run's model begins at public data, as its recorded settings say."""
    made = mechanism_class(mechanism)
    # A report is made of what a transcript has, if it is of another version, too.
    return made(**{one: recorded[one] for one in settings_of(made) if one in recorded}).uses_public


def _learns(transcript: Transcript) -> bool:
    return learns_from_public(transcript.mechanism, transcript.parameters)


def _uniform_text(transcript: Transcript) -> str:
    """Say that a model began uniform, where the mechanism has a choice."""
    if mechanism_class(transcript.mechanism).takes_public != "may":
        return ""
    return " Its model began uniform: it learned nothing from a public table."


def unmeasured_text(transcript: Transcript) -> str:
    """Describe the model's answer for an attribute that was not measured on the private table."""
    if chooses_source(transcript.mechanism):
        return (
            "If an attribute was taken from the public table, the model follows that table or "
            "related attributes. If no round chose an attribute, the model spreads it evenly."
        )
    if _learns(transcript):
        return (
            "If an attribute was not measured, the model follows the public table, as far as "
            "measurements of other attributes did not move it."
        )
    return "If an attribute was not measured, the model spreads it evenly."


def learned_from(transcript: Transcript, *, released: bool) -> str:
    """Describe the inputs of a model's fit."""
    mechanism = mechanism_class(transcript.mechanism)
    if not _learns(transcript):
        return "noisy answers from the private table"
    public = "an earlier release" if released else "public data"
    if not mechanism.reads_values:
        return f"{public} alone"
    return f"noisy answers from the private table and to {public}"

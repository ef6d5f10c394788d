"""What a mechanism did, in the words of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jam_dagster.mechanisms.registry import known_classes, make_mechanism, title_of

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript


def chooses_source(mechanism: str) -> bool:
    """Whether a mechanism chooses to measure on the public table in place of the private one."""
    found = known_classes().get(mechanism)
    return found is not None and found.chooses_source


def told_picks(mechanism: str, picks: Mapping[str, int]) -> str:
    """Tell how many rounds measured where; only how many, where they cannot choose."""
    told = {origin: f"{number} {origin}" for origin, number in picks.items()}
    if not chooses_source(mechanism):
        told = {**told, "private": str(picks["private"])}
        del told["public"]
    *first, last = told.values()
    return f"{', '.join(first)} and {last}" if first else last


def told_rounds(transcript: Transcript) -> str:
    """Tell what a round was, and why the last one was the last."""
    title = title_of(transcript.mechanism)
    ended = f"It ended with: {transcript.ended}."
    if chooses_source(transcript.mechanism):
        return (
            f"In each round the mechanism ({title}) chose, with noise, the marginal about which "
            "its model was most wrong, and whether to measure it with noise in the private table "
            "or to take it from the public table, which costs nothing but may be biased. Then it "
            f"refitted the model. {ended}"
        )
    chosen = (
        " Where choosing it cost something, it was chosen with noise, as one about which the model "
        "was wrong."
        if any(one.rho_select > 0 for one in transcript.rounds)
        else ""
    )
    public = (
        " It learned from the public table besides, which costs nothing but may be biased."
        if make_mechanism(transcript.mechanism).uses_public
        else ""
    )
    return (
        f"In each round the mechanism ({title}) measured a marginal of the private table, or a "
        f"part of one, with noise, and fitted its model anew.{chosen}{public} {ended}"
    )


def told_unmeasured(mechanism: str) -> str:
    """Tell what the model says of an attribute that was not measured on the private table."""
    if chooses_source(mechanism):
        return (
            "Where an attribute was taken from the public table, the model follows that, or what "
            "it knows of related attributes; of one that no round chose it knows nothing, and "
            "spreads it evenly."
        )
    if make_mechanism(mechanism).uses_public:
        return (
            "Where an attribute was not measured, the model says what the public table does, as "
            "far as measurements of other attributes did not move it."
        )
    return "Of an attribute that was not measured the model knows nothing, and spreads it evenly."


def learned_from(transcript: Transcript, *, released: bool) -> str:
    """Tell what a model was fitted to.

    Parameters
    ----------
    transcript
        Of the run.
    released
        Whether what stands as the public table was released from the same dataset before.
    """
    if not make_mechanism(transcript.mechanism).uses_public:
        return "noisy answers from the private table"
    public = "what had been released before" if released else "public data"
    return f"noisy answers from the private table and to {public}"

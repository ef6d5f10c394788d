"""A step that draws, run by a component's own `execute`, which sees results without values."""

from typing import Any

import dagster as dg

from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline.graph import Execute, Results

_NO_VALUE = dg.MaterializeResult[object]().value


def executed(execute: Execute, context: dg.AssetExecutionContext, made: Results) -> Results:
    """Yield what a step makes, in its order, with the metadata that `execute` adds.

    It takes a result once it has yielded the one before, leaves none out, and changes nothing but
    metadata of its own; else a SpecificationError says so.
    """
    taken: list[dg.MaterializeResult[Any]] = []
    ended = False

    def results() -> Results:
        nonlocal ended
        for one in made:
            if taken:
                raise SpecificationError(
                    "execute takes a result before it has yielded the one before: yield each in"
                    " turn, for a later one reads what was stored of an earlier one."
                )
            taken.append(one)
            # A copy, for what `execute` changes in it must be seen.
            yield dg.MaterializeResult(asset_key=one.asset_key, metadata={**(one.metadata or {})})
        ended = not taken

    for given in execute(context, results()):
        if not taken:
            raise SpecificationError("execute yields a result that it did not take.")
        one = taken.pop()
        yield dg.MaterializeResult(
            asset_key=one.asset_key,
            metadata=_metadata(one, given),
            check_results=one.check_results,
            data_version=one.data_version,
            tags=one.tags,
            value=one.value,
        )
    if not ended:
        raise SpecificationError(
            "execute ended before all results were yielded: let it yield each that it is given."
            " Every draw that was made is kept, and the same release has it again for nothing."
        )


def _metadata(one: dg.MaterializeResult[Any], given: object) -> dict[str, Any]:
    """Return the metadata of a result, with what was added to it."""
    own: dict[str, Any] = dict(one.metadata or {})
    if (
        not isinstance(given, dg.MaterializeResult)
        or given.asset_key != one.asset_key
        or given.value is not _NO_VALUE
        or any((given.check_results, given.data_version, given.tags))
    ):
        raise SpecificationError(
            "execute changes a result: of the one that it took, it may yield a copy with more"
            " metadata, and no value, tag, check or other key."
        )
    shown: dict[str, Any] = dict(given.metadata or {})
    changed = sorted(key for key in {**own, **shown} if own.get(key) != shown.get(key))
    if refused := [key for key in changed if key in own or key.startswith("jam/")]:
        raise SpecificationError(
            f"execute changes the metadata {refused[0]!r}, which the release sets: add keys of"
            " your own, without the prefix jam/."
        )
    return shown

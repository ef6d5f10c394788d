"""How a step of a release fails: by one sentence, which Dagster shows in place of a traceback."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg

from jam_dagster.errors import JamError
from jam_dagster.pipeline.graph import PRIVATE_STORE, RELEASABLE_STORE


def failing_by_a_sentence(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a step, whose errors of jam-dagster are Dagster's `Failure`.

    Its sentence is what Dagster's UI shows first. A retry may count as an attempt, so none is
    allowed. A `PrivateValuesError` always has the same sentence, and the same metadata.
    """

    @functools.wraps(compute)
    def returned(*inputs: Any, **named: Any) -> Any:
        try:
            return compute(*inputs, **named)
        except JamError as error:
            failure = _failure(error, *inputs[:1])
        # Outside of the handler, so that no traceback comes with it.
        raise failure

    @functools.wraps(compute)
    def yielded(*inputs: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from compute(*inputs, **named)
        except JamError as error:
            failure = _failure(error, *inputs[:1])
        else:
            return
        raise failure

    return yielded if inspect.isgeneratorfunction(compute) else returned


def _failure(error: JamError, context: Any = None) -> dg.Failure:
    said, resources = str(error), getattr(context, "resources", None)
    for key in (PRIVATE_STORE, RELEASABLE_STORE):
        store = getattr(resources, key, None)
        # An error about a file has its path: the variables in it are shown by their names.
        if store is not None and store.files.root.path in said:
            said = store.files.shown(said)
    metadata = {"error": type(error).__name__}
    return dg.Failure(description=said, metadata=metadata, allow_retries=False)

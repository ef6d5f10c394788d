"""A component's own `execute`: what it may do to the results of the step that draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline.assets.execution import executed

Result = dg.MaterializeResult[Any]
Results = Iterator[Result]


def step() -> Results:
    """A step's results, of which the second reads what was stored of the first."""
    for name in ("run", "table"):
        yield dg.MaterializeResult(name, metadata={"rows": 3}, value=f"the {name}")


def ran(execute: Callable[[Any, Results], Results]) -> list[Result]:
    return list(executed(execute, dg.build_asset_context(), step()))


def test_metadata_are_added_and_no_value_is_seen() -> None:
    seen = []

    def noting(context: Any, results: Results) -> Results:
        for one in results:
            seen.append(one)
            yield one._replace(metadata={**(one.metadata or {}), "invoice": 7})

    made = ran(noting)

    assert [one.value for one in made] == ["the run", "the table"]
    assert [one.metadata for one in made] == [{"rows": 3, "invoice": 7}] * 2
    assert seen == [dg.MaterializeResult(one.asset_key, metadata={"rows": 3}) for one in made]


def everything_first(context: Any, results: Results) -> Results:
    yield from list(results)


def nothing(context: Any, results: Results) -> Results:
    yield from ()


def the_first(context: Any, results: Results) -> Results:
    yield next(results)


def invented(context: Any, results: Results) -> Results:
    yield dg.MaterializeResult("run", value="another")


def changed(**parts: Any) -> Callable[[Any, Results], Results]:
    return lambda context, results: (one._replace(**parts) for one in results)


def added(**metadata: Any) -> Callable[[Any, Results], Results]:
    return lambda context, results: (
        one._replace(metadata={**(one.metadata or {}), **metadata}) for one in results
    )


def within(**metadata: Any) -> Callable[[Any, Results], Results]:
    def changing(context: Any, results: Results) -> Results:
        for one in results:
            assert isinstance(one.metadata, dict)
            one.metadata.update(metadata)
            yield one

    return changing


@pytest.mark.parametrize(
    ("execute", "says"),
    [
        (everything_first, "before it has yielded the one before"),
        (nothing, "ended before all results"),
        (the_first, "ended before all results"),
        (invented, "did not take"),
        (changed(value="another"), "changes a result"),
        (changed(asset_key=dg.AssetKey("other")), "changes a result"),
        (changed(tags={"jam/privacy": "public"}), "changes a result"),
        (changed(data_version=dg.DataVersion("2")), "changes a result"),
        (changed(metadata={}), "changes the metadata 'rows'"),
        (added(rows=4), "changes the metadata 'rows'"),
        (added(**{"jam/built": "public"}), "changes the metadata 'jam/built'"),
        (within(rows=4), "changes the metadata 'rows'"),
        (within(**{"jam/built": "public"}), "changes the metadata 'jam/built'"),
    ],
)
def test_anything_else_is_refused(execute: Callable[[Any, Results], Results], says: str) -> None:
    with pytest.raises(SpecificationError, match=says):
        ran(execute)

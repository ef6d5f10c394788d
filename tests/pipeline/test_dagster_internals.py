"""The names that Dagster does not export, and the versions of Dagster that have them."""

import dagster

from jam_dagster.pipeline import dagster_internals


def test_this_version_of_dagster_was_tried() -> None:
    """A new minor version fails here first: run all tests with it, and add it to `TRIED_WITH`."""
    minor = ".".join(dagster.__version__.split(".")[:2])
    assert minor in dagster_internals.TRIED_WITH


def test_every_name_is_there() -> None:
    for name in dagster_internals.__all__:
        assert getattr(dagster_internals, name) is not None, name

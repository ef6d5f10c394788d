"""The small release of the evaluation's tests."""

from tests.evaluation.conftest import release

__all__ = ["release"]

"""The small table and model of the mechanisms' tests."""

from tests.mechanisms.conftest import domain, model, private, public

__all__ = ["domain", "model", "private", "public"]

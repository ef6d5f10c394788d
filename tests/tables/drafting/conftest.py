"""Random tables that are the same in any order of the tests."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def begins_again(request: pytest.FixtureRequest) -> None:
    """Let the generator of a module begin again, so that a test draws the same after any others."""
    if (rng := getattr(request.module, "RNG", None)) is not None:
        rng.bit_generator.state = np.random.default_rng(0).bit_generator.state

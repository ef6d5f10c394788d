"""A noise backend by its name."""

from __future__ import annotations

from typing import get_args

from jam_dagster.common.choices import NoiseName
from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.noise.base import Noise
from jam_dagster.privacy.noise.exact import ExactNoise
from jam_dagster.privacy.noise.seeded import SeededNoise


def make_noise(name: str, seed: int | None = None) -> Noise:
    """Return the backend of that name.

    Parameters
    ----------
    name : {"exact", "numpy"}
        The backend.
    seed : int, optional
        Seed of the ``"numpy"`` backend, 0 if not given.

    Raises
    ------
    SpecificationError
        If the name is unknown, or a seed is given to the exact backend, which has none.
    """
    if name == "exact":
        if seed is not None:
            raise SpecificationError(
                f"noise 'exact' cannot be seeded (got seed {seed!r}); leave the seed out, or "
                "choose noise 'numpy' for research, with output that is not released"
            )
        return ExactNoise()
    if name == "numpy":
        return SeededNoise(0 if seed is None else seed)
    raise SpecificationError(f"noise must be one of {list(get_args(NoiseName))}, got {name!r}")

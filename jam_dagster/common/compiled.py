"""Libraries of inner loops in C, which are there if the package was built with a compiler."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path


def compiled(path: Path, version: int) -> ctypes.CDLL | None:
    """Load a library; None without any, or if ``JAM_KERNELS=numpy`` is set.

    Parameters
    ----------
    path
        The library.
    version
        Of the interface that its caller expects, which ``jam_version`` returns.
    """
    if os.environ.get("JAM_KERNELS") == "numpy" or not path.exists():
        return None
    try:
        loaded = ctypes.CDLL(str(path))
        return loaded if loaded.jam_version() == version else None
    except (OSError, AttributeError):
        # Compiled for another machine or an earlier version: NumPy is slower, but correct.
        return None

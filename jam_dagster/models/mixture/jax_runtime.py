"""JAX as every part of this package needs it, whoever imports it first."""

from __future__ import annotations

import os
from types import ModuleType


def load_jax() -> ModuleType:
    """Import jax with double precision allowed, on the CPU unless ``JAX_PLATFORMS`` says otherwise.

    The precision that is allowed decides the last digits even of what is computed in single
    precision, so it must not depend on who came first.
    """
    # The persistent cache writes thousands of small programs that no later run can use.
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    return jax

"""The import of JAX with the same settings, whichever module imports it first."""

from __future__ import annotations

import os
from types import ModuleType


def load_jax() -> ModuleType:
    """Import jax with double precision allowed, on the CPU unless ``JAX_PLATFORMS`` names another.

    The allowed precision changes the last digits even of single-precision results, so it must not
    depend on which module imports JAX first.
    """
    # The persistent cache writes thousands of small programs that no later run can use.
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    return jax

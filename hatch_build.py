"""Compiles the inner loops while the package is built, where there is a C compiler.

Without one the package is built all the same; its loops then run in NumPy, several times slower.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARIES = {
    Path("jam_dagster/models/graphical/kernels.c"): "_kernels.so",
    Path("jam_dagster/tables/codes/counting.c"): "_counting.so",
}

# The same sums on every machine: no multiplication is fused with an addition. Roots report no
# errors, so that several are taken at once.
FLAGS = [
    *("-O3", "-std=gnu11", "-shared", "-fPIC", "-pthread"),
    *("-ffp-contract=off", "-fno-math-errno"),
]

# Some C libraries cannot choose among several versions of a function when they load it.
VARIANTS: list[list[str]] = [[], ["-DONE_VERSION"]]


class CompiledKernels(BuildHookInterface[BuilderConfig]):
    """Adds the compiled kernels to wheels and editable installations."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and mark the wheel as belonging to this platform if that succeeded."""
        del version
        root = Path(self.root)
        if self.target_name != "wheel":
            return
        made = [
            source.with_name(library)
            for source, library in LIBRARIES.items()
            if self._compile(root / source, root / source.with_name(library))
        ]
        if not made:
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"] += map(str, made)

    def _compile(self, source: Path, library: Path) -> bool:
        compiler = os.environ.get("CC") or "cc"
        # Written beside and moved: a process that runs keeps the library that it has loaded.
        written = library.with_suffix(".new")
        for variant in VARIANTS:
            options = [*FLAGS, *variant, str(source), "-o", str(written), "-lm"]
            try:
                command = [*shlex.split(compiler), *options]
                subprocess.run(command, check=True, capture_output=True, text=True)
            except subprocess.CalledProcessError as failed:
                self.app.display_warning(f"{shlex.join(command)} failed:\n{failed.stderr}")
                continue
            except (OSError, ValueError) as failed:
                self.app.display_warning(
                    f"The C compiler {compiler!r} cannot be run ({failed}): the loops will run "
                    "in NumPy."
                )
                break
            written.replace(library)
            return True
        library.unlink(missing_ok=True)
        return False

"""Plant a known bug in a copy of the package, and see whether the tests named for it notice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("jam_dagster", "tests", "assets", "resources", "benchmarks", "pyproject.toml")
SECONDS = 600


class StaleMutantError(Exception):
    """The text that a mutant replaces is not there exactly once: the code has changed."""


@dataclass(frozen=True)
class Mutant:
    """A bug that libraries like this one have had, as a change of this one.

    Parameters
    ----------
    name
        A word for it.
    bug
        What goes wrong.
    path
        The file, from the root.
    old, new
        The text that is replaced, which must be there once, and what it becomes.
    tests
        What pytest is given; at least one of these must fail.
    """

    name: str
    bug: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    def changed(self, root: Path = ROOT) -> str:
        """Return the file with the bug in it.

        Raises
        ------
        StaleMutantError
            If the old text is not there exactly once.
        """
        text = (root / self.path).read_text()
        found = text.count(self.old)
        if found != 1:
            raise StaleMutantError(
                f"mutant {self.name}: {self.path} holds the old text {found} times, not once; "
                "write the mutant anew for the code as it is"
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Verdict:
    """Whether the tests noticed a mutant, and what they said."""

    mutant: Mutant
    noticed: bool
    said: str

    @property
    def reason(self) -> str:
        """The first thing that pytest found wrong."""
        wrong = (line[1:].strip() for line in self.said.splitlines() if line.startswith("E  "))
        return next(wrong, "")


def copy_of_the_project(folder: Path) -> None:
    """Copy what the tests need, compiled kernels too."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)


def run_tests(folder: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """Run tests in a copy; return pytest's status and the end of what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
        cwd=folder,
        # The copy goes before an installation of the project itself.
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return done.returncode, (done.stdout + done.stderr)[-4000:]


def fault_without_a_mutant(tests: tuple[str, ...]) -> str:
    """Return what is wrong with tests on the project as it is; empty where they pass."""
    with tempfile.TemporaryDirectory(prefix="mutant-none-") as temporary:
        folder = Path(temporary)
        copy_of_the_project(folder)
        status, said = run_tests(folder, tests)
    return f"without any mutant {' '.join(tests)} do not pass:\n{said}" if status else ""


def verdict(mutant: Mutant) -> Verdict:
    """Plant a mutant in a copy of its own and run its tests.

    Raises
    ------
    StaleMutantError
        If it no longer applies.
    """
    changed = mutant.changed()
    compile(changed, mutant.path, "exec")
    with tempfile.TemporaryDirectory(prefix="mutant-") as temporary:
        folder = Path(temporary)
        copy_of_the_project(folder)
        (folder / mutant.path).write_text(changed)
        status, said = run_tests(folder, mutant.tests)
    # 1 is failed tests; anything else but 0 means that they did not run at all.
    if status not in (0, 1):
        raise StaleMutantError(f"mutant {mutant.name}: its tests did not run:\n{said}")
    if "error during collection" in said or "ImportError" in said:
        raise StaleMutantError(f"mutant {mutant.name} breaks the import of its tests:\n{said}")
    return Verdict(mutant, status == 1, said)

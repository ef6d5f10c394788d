"""Plant a known bug in a copy of the package, and see whether the tests named for it notice."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.mutants.changes import StaleMutantError, change

ROOT = Path(__file__).parents[2]
CATALOG = Path(__file__).with_name("catalog.yaml")
COPIED = ("jam_dagster", "tests", "assets", "resources", "benchmarks", "pyproject.toml")
SECONDS = 600


@dataclass(frozen=True)
class Mutant:
    """A bug that libraries like this one have had, as a change of this one.

    Parameters
    ----------
    name
        A word for it.
    bug
        What goes wrong.
    at
        ``module:qualname``, below the package: what the change is looked for in. Or a file of C,
        which is compiled anew.
    change
        See `tests.mutants.changes`; in C ``TEXT -> NEW``, with a text that is there once.
    tests
        Test files or tests, below the folder of tests; at least one of these must fail.
    """

    name: str
    bug: str
    at: str
    change: str
    tests: str

    @property
    def path(self) -> str:
        """The file, from the root."""
        if self.at.endswith(".c"):
            return f"jam_dagster/{self.at}"
        return f"jam_dagster/{self.at.partition(':')[0].replace('.', '/')}.py"

    def changed(self, root: Path = ROOT) -> str:
        """Return the source of the file with the bug in it.

        Raises
        ------
        StaleMutantError
            If what is changed is not there exactly once.
        """
        source = (root / self.path).read_text()
        if self.at.endswith(".c"):
            text, _, new = self.change.partition(" -> ")
            if source.count(text) != 1:
                raise StaleMutantError(f"mutant {self.name}: {self.path}: not once: {text}")
            return source.replace(text, new)
        return ast.unparse(ast.fix_missing_locations(self.changed_tree(source)))

    def changed_tree(self, source: str) -> ast.Module:
        """Return the syntax tree of a file of Python, `source`, with the bug in it."""
        tree = ast.parse(source)
        try:
            change(tree, self.at.partition(":")[2], self.change)
        except StaleMutantError as error:
            raise StaleMutantError(f"mutant {self.name}: {self.path}: {error}") from None
        return tree


def catalog() -> list[Mutant]:
    """Return the mutants of the catalog."""
    # LibYAML reads it ten times as fast, where PyYAML was built with it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = yaml.load(CATALOG.read_text(), Loader=loader)
    return [Mutant(name, **given) for name, given in found.items()]


@dataclass(frozen=True)
class Verdict:
    """Whether the tests noticed a mutant, and what they said."""

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


def compile_kernels(source: Path) -> None:
    """Compile kernels of C in place of those that were copied."""
    compiler = os.environ.get("CC") or "cc"
    options = ["-O1", "-std=gnu11", "-shared", "-fPIC", "-pthread", "-DONE_VERSION"]
    made = source.with_name(f"_{source.stem}.so")
    made.unlink(missing_ok=True)
    subprocess.run([compiler, *options, str(source), "-o", str(made), "-lm"], check=True)


def run_tests(folder: Path, tests: Iterable[str], *options: str) -> tuple[int, str]:
    """Run tests in a copy; return pytest's status and the end of what it said."""
    given = [*options, *(f"tests/{one}" for one in tests)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *given],
        cwd=folder,
        # The copy goes before an installation of the project itself.
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return done.returncode, (done.stdout + done.stderr)[-4000:]


def fault_without_a_mutant(tests: Iterable[str]) -> str:
    """Return what is wrong with tests on the project as it is; empty where they pass."""
    with tempfile.TemporaryDirectory(prefix="mutant-none-") as temporary:
        folder = Path(temporary)
        copy_of_the_project(folder)
        status, said = run_tests(folder, tests, "-n", "2", "--dist", "loadgroup")
    return f"without any mutant a test does not pass:\n{said}" if status else ""


def verdict(mutant: Mutant) -> Verdict:
    """Plant a mutant in a copy of its own and run its tests.

    Raises
    ------
    StaleMutantError
        If it no longer applies.
    """
    changed = mutant.changed()
    with tempfile.TemporaryDirectory(prefix="mutant-") as temporary:
        folder = Path(temporary)
        copy_of_the_project(folder)
        (folder / mutant.path).write_text(changed)
        if mutant.at.endswith(".c"):
            compile_kernels(folder / mutant.path)
        status, said = run_tests(folder, [mutant.tests])
    # 1 is failed tests; anything else but 0 means that they did not run at all.
    if status not in (0, 1):
        raise StaleMutantError(f"mutant {mutant.name}: its tests did not run:\n{said}")
    if "error during collection" in said or "ImportError" in said:
        raise StaleMutantError(f"mutant {mutant.name} breaks the import of its tests:\n{said}")
    return Verdict(status == 1, said)

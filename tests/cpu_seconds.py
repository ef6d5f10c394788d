"""The CPU-seconds of each test, by which a person sees which tests belong in a later tier.

This is a list alone: a test takes longer on a machine under load, and no run fails for that.

A test costs what its phases take in its worker and in processes that ended meanwhile. What several
tests share, a fixture or an import, counts with the first of them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest

LISTED = 2.0
"""An unmarked test that takes more CPU-seconds is listed at the end of a run."""

NAME = "cpu_seconds"
"""The property of a test in JUnit's file."""

LATER = ("slow", "gate")
"""The marks of tests that may take longer."""


def seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


class CpuSeconds:
    """Adds the CPU-seconds of each phase to its report."""

    def __init__(self) -> None:
        self._since = seconds()
        self._taken: dict[str, dict[str, float]] = defaultdict(dict)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        """Begin to count with the test."""
        self._since = seconds()
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """Note what a phase took."""
        outcome = yield
        report = outcome.get_result()
        now = seconds()
        report.cpu_seconds = now - self._since
        self._since = now
        spent = item.stash.setdefault(SPENT, [])
        spent.append(report.cpu_seconds)
        if report.passed:
            # A worker sends each report, and the names of a test are most of it.
            report.keywords = {mark: 1 for mark in LATER if mark in report.keywords}
        if report.when == "teardown":
            report.user_properties.append((NAME, f"{sum(spent):.2f}"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the phases of unmarked tests, from all workers."""
        if not any(mark in report.keywords for mark in LATER):
            self._taken[report.nodeid][report.when or ""] = getattr(report, NAME, 0.0)

    def costly(self) -> list[tuple[float, float, str]]:
        """Return the whole, the call's and the name of each test over `LISTED`, largest first."""
        found = [
            (sum(phases.values()), phases.get("call", 0.0), test)
            for test, phases in self._taken.items()
        ]
        return sorted((one for one in found if one[0] > LISTED), reverse=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List what takes long."""
        costly = self.costly()
        if not costly:
            return
        terminalreporter.section(f"unmarked tests over {LISTED:g} CPU-seconds: mark them slow")
        for whole, call, test in costly:
            terminalreporter.write_line(f"{whole:6.1f}  ({call:.1f} by itself)  {test}")


SPENT = pytest.StashKey[list[float]]()

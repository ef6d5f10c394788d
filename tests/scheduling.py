"""Which worker runs which test."""

from __future__ import annotations

from xdist.scheduler import LoadGroupScheduling

CHECKS_AND_PAGES = (
    "full",
    "tests/evaluation/expectations/test_validation.py",
    "tests/release/test_children.py",
    "tests/release/test_dataframes.py",
    "tests/release/test_engine.py",
    "tests/release/test_levels.py",
    "tests/reports/",
)
"""Groups and modules that need Great Expectations, or Vega for a page: seconds in each process."""


class ByModule(LoadGroupScheduling):
    """Gives all tests of a module to one worker, unless they are of a group.

    So what a module makes once is made by one worker. And after each test xdist looks at all that
    it has given out, which takes seconds if each of some thousand tests is given out by itself.
    """

    def _split_scope(self, nodeid: str) -> str:
        group = super()._split_scope(nodeid)
        scope = nodeid.partition("::")[0] if group == nodeid else group
        return "checks and pages" if scope.startswith(CHECKS_AND_PAGES) else scope

"""Which worker runs which test."""

from __future__ import annotations

from xdist.scheduler import LoadGroupScheduling


class ByModule(LoadGroupScheduling):
    """Gives all tests of a module to one worker, unless they are of a group.

    So what a module makes once is made by one worker. And after each test xdist looks at all that
    it has given out, which takes seconds if each of some thousand tests is given out by itself.
    """

    def _split_scope(self, nodeid: str) -> str:
        group = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if group == nodeid else group

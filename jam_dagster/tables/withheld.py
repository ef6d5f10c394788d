"""Errors from code that holds private values, without those values."""

from __future__ import annotations

import traceback
from contextlib import ContextDecorator
from types import TracebackType
from typing import Literal

from jam_dagster.errors import JamError, PrivateStepError


class withheld(ContextDecorator):  # noqa: N801 - read as a statement: with withheld("encoding"):
    """Context manager: an unexpected error inside becomes one that cannot hold a private value.

    What libraries raise often quotes the value they stumbled over, and ends in logs that many
    people read. Such an exception is replaced by a `PrivateStepError` that names `what`, the
    exception's type and the innermost file and line, without its message, cause or context.
    Errors of this package keep their message, which never holds private values, and lose cause
    and context; so do interrupts.

    Parameters
    ----------
    what
        What is being done, such as ``"encoding attribute 'age'"``.

    Raises
    ------
    PrivateStepError
        In place of any exception that is not a `JamError`.
    """

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        """Do nothing: what matters happens on the way out."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        """Replace an unexpected error; strip the chain of the others."""
        if error is None:
            return False
        if isinstance(error, JamError) or not isinstance(error, Exception):
            error.__cause__ = error.__context__ = None
            return False
        substitute = PrivateStepError(
            f"{self.what} failed with {type(error).__module__}.{type(error).__qualname__}"
            f"{_place(trace)}; its message is withheld because it may quote private values."
            " To see it, repeat the step on public data of the same form."
        )
        # Debuggers and log handlers print locals of the frames of a traceback.
        del kind, error, trace
        try:
            raise substitute
        except PrivateStepError:
            # Python made the original error its context; a bare raise leaves the chain alone.
            substitute.__context__ = None
            raise


def _place(trace: TracebackType | None) -> str:
    frames = traceback.StackSummary.extract(traceback.walk_tb(trace), lookup_lines=False)
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""

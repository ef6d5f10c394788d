"""Errors from code that holds private values, without those values.

What is withheld goes to whoever may read it, where `keeping_details` says how.
"""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Literal

from jam_dagster.errors import DETAILS_LIE, JamError, PrivateStepError, PrivateValuesError

_keep: ContextVar[Callable[[str], None] | None] = ContextVar("keep", default=None)

_OF_THE_DISK = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)
)
"""Faults of the disk or its permissions: no value of a table brings them about."""


class redacted(ContextDecorator):  # noqa: N801 - read as a statement: with redacted("encoding"):
    """Context manager: an unexpected error inside becomes one that cannot hold a private value.

    What libraries raise often quotes the value they stumbled over, and ends in logs that many
    people read; its type and its place can depend on that value, too. Such an exception is
    replaced by a `PrivateStepError` that names `what` alone, without cause or context; see
    `keeping_details` for the rest. Errors of this package keep their message, which never holds
    private values, and lose cause and context; so do interrupts. Of a `PrivateValuesError` the
    traceback begins here, so that the line that raised it is no answer. Of a full disk, or one
    that may not be written to, the system's own words are given, and not the file's name.

    Parameters
    ----------
    what
        What is being done, such as ``"reading the private table"``; no attribute, and nothing
        else that values decide.

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
        substitute: JamError
        if isinstance(error, PrivateValuesError):
            substitute = PrivateValuesError()
        elif isinstance(error, JamError) or not isinstance(error, Exception):
            error.__cause__ = error.__context__ = None
            return False
        else:
            _keep_details(self.what, error)
            substitute = PrivateStepError(
                f"{self.what} failed; how is withheld, because that may depend on private values. "
                f"{DETAILS_LIE}{_remedy(error)}"
            )
        # Debuggers and log handlers print locals of the frames of a traceback.
        del kind, error, trace
        try:
            raise substitute
        except JamError:
            # Python made the original error its context; a bare raise leaves the chain alone.
            substitute.__context__ = None
            raise


class private_values(ContextDecorator):  # noqa: N801 - as `redacted`
    """Context manager: whatever fails inside depends on values of a private table.

    Any exception but an interrupt is replaced by a `PrivateValuesError`, which is the same for
    all of them: neither its message nor its traceback tells which value, attribute, combination
    or number of rows was wrong. What does not depend on values, such as a missing column, is to
    be found before.

    Raises
    ------
    PrivateValuesError
        In place of any exception.
    """

    def __enter__(self) -> None:
        """Do nothing: what matters happens on the way out."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        """Replace the error."""
        if error is None:
            return False
        if not isinstance(error, Exception):
            error.__cause__ = error.__context__ = None
            return False
        if not isinstance(error, PrivateValuesError | PrivateStepError):
            _keep_details("the private table", error)
        substitute = PrivateValuesError()
        del kind, error, trace
        try:
            raise substitute
        except PrivateValuesError:
            substitute.__context__ = None
            raise


@contextmanager
def keeping_details(keep: Callable[[str], None]) -> Iterator[None]:
    """Hand on what errors inside withhold, for the owner of the private data alone.

    Parameters
    ----------
    keep
        Gets a text that quotes private values; it must write it where nobody else reads. What it
        raises is passed over: an error that cannot be explained is still the error.
    """
    before = _keep.set(keep)
    try:
        yield
    finally:
        _keep.reset(before)


def _keep_details(what: str, error: BaseException) -> None:
    keep = _keep.get()
    if keep is None:
        return
    # What fails while it is kept has nowhere to be explained.
    before = _keep.set(None)
    # A value that cannot be printed must not hide where it was met.
    with suppress(Exception):
        keep(f"{what}\n\n{''.join(traceback.format_exception(error))}")
    _keep.reset(before)


def _remedy(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
        return (
            f" The system says: {os.strerror(error.errno)}. Check the space on the disk and the"
            " permissions, and run again."
        )
    return ""

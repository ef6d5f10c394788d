"""Errors from code that holds private values, without those values.

`keeping_details` decides where the withheld details go.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Literal

from jam_dagster.common.files import WITHOUT_ROOM
from jam_dagster.errors import (
    WHERE_DETAILS_ARE,
    BudgetError,
    EmptyCandidateSetError,
    JamError,
    PrivateStepError,
    PrivateValuesError,
)

_PACKAGE = __name__.partition(".")[0]

_keep: ContextVar[Callable[[str], None] | None] = ContextVar("keep", default=None)

_OF_THE_DISK = frozenset((*WITHOUT_ROOM, errno.EROFS, errno.EACCES, errno.EIO))
"""Faults of the disk or its permissions, which are independent of a table's values."""


class _Withholding(ContextDecorator, ABC):
    """Context manager that raises an error without private values in place of another."""

    @abstractmethod
    def substitute(self, error: Exception, trace: TracebackType | None) -> JamError | None:
        """Return what is raised in place of an error; None: itself, without its chain."""

    def __enter__(self) -> None:
        """Do nothing: the work is done on exit."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        """Replace an unexpected error; strip the chain of the others."""
        if error is None:
            return False
        substitute = self.substitute(error, trace) if isinstance(error, Exception) else None
        if substitute is None:
            error.__cause__ = error.__context__ = None
            error.__dict__.pop("__notes__", None)
            return False
        # Debuggers and log handlers print locals of the frames of a traceback.
        del kind, error, trace
        try:
            raise substitute
        except JamError:
            # Python set the original error as context; a bare raise keeps the chain.
            substitute.__context__ = None
            raise


class redacted(_Withholding):  # noqa: N801 - read as a statement: with redacted("encoding"):
    """Context manager: an unexpected error inside becomes one that cannot hold a private value.

    Exceptions of libraries often quote the faulty value, and end in logs that many people read;
    their type and place can depend on that value, too. Such an exception is replaced by a
    `PrivateStepError` that names `what` alone, without cause or context; see `keeping_details` for
    the rest. Errors that this package raises keep their message, which never holds private values,
    and lose cause, context and notes; interrupts keep theirs, too. Code of another package, such as
    a mechanism, may raise the same classes with any message, or have this package quote what it
    passes: such an error is replaced, unless this package raised it about the budget or the model
    size. The traceback of a `PrivateValuesError` begins here, so
    that it does not reveal the line that raised it. For a full or read-only disk, the message
    includes the system's own words, but not the file's name.

    Parameters
    ----------
    what
        The current step, such as ``"reading the private table"``; no attribute, and nothing else
        that depends on values.

    Raises
    ------
    PrivateStepError
        In place of any exception that is not a `JamError` of this package.
    """

    def __init__(self, what: str) -> None:
        self.what = what

    def substitute(self, error: Exception, trace: TracebackType | None) -> JamError | None:
        """Return the error of a private step, or None for an error of this package."""
        if isinstance(error, PrivateValuesError):
            return PrivateValuesError()
        if _is_own(error, trace):
            return None
        keep_details(self.what, error)
        return PrivateStepError(
            f"{self.what} failed; the cause is withheld, as it may depend on private values. "
            f"{WHERE_DETAILS_ARE}{_remedy(error)}"
        )


class private_values(_Withholding):  # noqa: N801 - as `redacted`
    """Context manager: every failure inside depends on values of a private table.

    Any exception but an interrupt is replaced by a `PrivateValuesError`, which is the same for all
    of them: neither its message nor its traceback reveals the faulty value, attribute, combination
    or number of rows. Check for faults that do not depend on values, such as a missing column,
    before entering.
    """

    def substitute(self, error: Exception, trace: TracebackType | None) -> JamError:
        """Return the one error that says nothing of values."""
        if not isinstance(error, PrivateValuesError | PrivateStepError):
            keep_details("the private table", error)
        return PrivateValuesError()


@contextmanager
def keeping_details(keep: Callable[[str], None]) -> Iterator[None]:
    """Pass the withheld details of errors inside to the owner of the private data.

    `keep` receives a text that quotes private values, and must write it where only their owner can
    read. Its own exceptions are ignored, so that the original error is still raised.
    """
    before = _keep.set(keep)
    try:
        yield
    finally:
        _keep.reset(before)


def keep_details(what: str, error: BaseException) -> None:
    """Keep why something failed where `keeping_details` says, and nowhere else."""
    keep = _keep.get()
    if keep is None:
        return
    # A failure of `keep` itself has no place to be recorded.
    before = _keep.set(None)
    # A value that cannot be printed must not hide its place.
    with suppress(Exception):
        keep(f"{what}\n\n{''.join(traceback.format_exception(error))}")
    _keep.reset(before)


_WITHOUT_VALUES = (BudgetError, EmptyCandidateSetError, PrivateStepError)
"""Errors that quote nothing which the caller passes and the ledger does not have."""


def _is_own(error: Exception, trace: TracebackType | None) -> bool:
    """Return whether this package wrote an error's message, without a value of another's code."""
    if not isinstance(error, JamError):
        return False
    # The first frame is the one that entered the context manager.
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(trace)][1:]
    tops = [str(module).partition(".")[0] for module in modules]
    if all(top == _PACKAGE or top in sys.stdlib_module_names for top in tops):
        return True
    return isinstance(error, _WITHOUT_VALUES) and tops[-1] == _PACKAGE


def _remedy(error: Exception) -> str:
    if not isinstance(error, OSError) or error.errno not in _OF_THE_DISK:
        return ""
    # To ask for the folder may write a file, whose own error would be chained to the withheld one.
    said, folder = f" The system says: {os.strerror(error.errno)}.", tempfile.tempdir
    full = folder is not None and error.errno in WITHOUT_ROOM
    if full and Path(str(error.filename)).is_relative_to(str(folder)):
        return f"{said} Free some room in {folder}, or set TMPDIR, and run again."
    return f"{said} Check the space on the disk and the permissions, and run again."

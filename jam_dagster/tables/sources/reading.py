"""Reading of tables, with errors that name a remedy and quote nothing private."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import private_values
from jam_dagster.common.variables import with_names
from jam_dagster.errors import JamError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

READ_ROWS = 1 << 16
"""The most rows that are read at a time."""


def expand_variables(text: str) -> str:
    """Replace each ``${NAME}`` by the environment variable of that name."""

    def value_of(match: re.Match[str]) -> str:
        value = os.environ.get(match[1])
        if value is None:
            raise SourceError(
                f"the environment variable {match[1]} is not set: set it, or write the full path or"
                " URL in the configuration"
            )
        return value

    return re.sub(r"\$\{(\w+)\}", value_of, text)


def open_handle(path: str, mode: str, **options: Any) -> Any:
    """Open a file or a URL as `pandas.read_csv` does; a context, whose ``handle`` is the file."""
    from pandas.io.common import get_handle  # type: ignore[import-not-found]  # not in its stubs

    return get_handle(path, mode, **options)


def quoted(name: str, mark: str = '"') -> str:
    """Return a name between marks, as SQL has it."""
    return f"{mark}{name.replace(mark, 2 * mark)}{mark}"


def check_unique(what: str, names: Collection[str], remedy: str) -> None:
    """Raise unless all columns of a table have names of their own."""
    if len(set(names)) < len(names):
        raise SourceError(f"{what} has two columns of the same name: {remedy}")


def reading(
    what: str,
    private: bool,
    read: Callable[[], T],
    secrets: Iterable[str] = (),
    *,
    place: str = "",
) -> T:
    """Call `read`, and turn every exception into a SourceError or a PrivateValuesError."""
    reason = ""
    try:
        with warnings.catch_warnings():
            if private:
                warnings.simplefilter("ignore")
            return read()
    except JamError:
        raise
    except Exception as error:  # Readers and database drivers raise exceptions of any type.
        if private and isinstance(error, UnicodeError | pd.errors.ParserError):
            # The bytes of a record depend on its values.
            with private_values():
                raise
        reason = _reason(error)
        if not private:
            detail = str(error).strip()
            for secret in secrets:
                detail = detail.replace(secret, "***")
            reason += f" ({with_names(detail, place or what)})"
    # Raised here, outside the handler, so that the original is not chained to it.
    raise SourceError(f"cannot read {what}: {reason}")


def reading_values(
    what: str,
    private: bool,
    read: Callable[[], T],
    secrets: Iterable[str] = (),
    *,
    place: str = "",
) -> T:
    """Call `read` on an open table; its exceptions may depend on values."""
    if not private:
        return reading(what, private, read, secrets, place=place)
    with private_values(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read()


def each_batch(batches: Iterator[T], what: str) -> Iterator[T]:
    """Yield the batches of an open private table."""
    while (batch := reading_values(what, True, lambda: next(batches, None))) is not None:
        yield batch


def some_batch(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batches; if there are none, one of the schema without rows."""
    import pyarrow as pa

    empty = True
    for batch in batches:
        yield batch
        empty = False
    if empty:
        yield pa.RecordBatch.from_arrays([pa.nulls(0, one.type) for one in schema], schema.names)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file; check the path, or mount its disk"
    if isinstance(error, PermissionError):
        return "this user may not read it; change its mode or the user"
    if isinstance(error, UnicodeError) or type(error) is LookupError:
        return "it is not text in that encoding; set `encoding`, such as latin-1, next to `csv`"
    if isinstance(error, pd.errors.EmptyDataError):
        return "it is empty; check the process that wrote it"
    if isinstance(error, pd.errors.ParserError):
        return (
            "lines have more fields than the header, or a quote is not closed; check the"
            ' separator, as in {"csv": "people.csv", "separator": ";"}, and quote fields that'
            " contain it"
        )
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    return f"{name}; check the path or URL, the query, and that the format is the one declared"

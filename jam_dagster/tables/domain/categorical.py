"""Attributes of categories: a list of values, each a cell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.values import (
    DTYPES_OF_KIND,
    NULL_LABEL,
    Unreadable,
    Value,
    check_dtype,
    check_name,
    check_unreadable,
    exact_number,
    inferred_dtype,
    kind_of,
    plain_value,
    text_of,
    truth_of,
    truths_of,
)


@dataclass(frozen=True)
class CategoricalAttribute:
    """An attribute with a list of values, each a cell of its own.

    Parameters
    ----------
    name
        The column's name.
    values
        The values, in the order of their codes. No two may have the same text.
    nullable
        Whether a missing value is allowed; it has a cell of its own, the last.
    other
        The listed value that encodes every unlisted one. None: an unlisted value is an error.
    dtype
        The pandas dtype to decode to; None: inferred from the values.
    unreadable
        "missing": without an `other`, an unlisted value is encoded as a missing one.

    Raises
    ------
    DomainError
        No values, two values alike, `other` not among them, a dtype that cannot hold them, or
        `unreadable` is "missing" and the attribute is not nullable.
    """

    name: str
    values: tuple[Value, ...]
    nullable: bool = False
    other: Value | None = None
    dtype: str | None = None
    unreadable: Unreadable = "error"

    def __post_init__(self) -> None:
        check_name(self.name)
        check_unreadable(self.name, self.unreadable, self.nullable)
        values = tuple(plain_value(self.name, value) for value in self.values)
        object.__setattr__(self, "values", values)
        if not values:
            raise DomainError(f"attribute {self.name!r} has no values: list at least one")
        if len({text_of(value) for value in values}) < len(values):
            raise DomainError(
                f"attribute {self.name!r} lists a value twice"
                " (1, 1.0 and '1' count as the same): remove one"
            )
        if self.other is not None:
            code = self._codes.get(text_of(self.other))
            if code is None:
                raise DomainError(
                    f"attribute {self.name!r}: other is {self.other!r}, which is not one of its"
                    " values: add it to them"
                )
            object.__setattr__(self, "other", values[code])
        kind = kind_of(values)
        object.__setattr__(self, "dtype", self.dtype or inferred_dtype(kind, self.nullable))
        check_dtype(self.name, str(self.dtype), DTYPES_OF_KIND[kind], self.nullable)
        self._check_values_fit()

    def _check_values_fit(self) -> None:
        """Raise DomainError unless the dtype holds every value unchanged."""
        dtype = str(self.dtype).lower()
        if dtype.lstrip("u").rstrip("0123456789") not in ("int", "float"):
            return
        try:
            stored = np.array(self.values, dtype=object).astype(dtype)
        except OverflowError:
            stored = np.array([])
        if [text_of(value) for value in stored] != [text_of(value) for value in self.values]:
            raise DomainError(
                f"attribute {self.name!r} has values that dtype {self.dtype} changes: use a wider"
                " dtype, or texts"
            )

    @property
    def size(self) -> int:
        """Number of cells, the null cell included."""
        return len(self.values) + self.nullable

    @property
    def null_code(self) -> int | None:
        """Code of the null cell, the last; None where the attribute is not nullable."""
        return len(self.values) if self.nullable else None

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Label of each cell in plots and tables."""
        return (*map(text_of, self.values), *((NULL_LABEL,) if self.nullable else ()))

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {text_of(value): code for code, value in enumerate(self.values)}

    @cached_property
    def _numbers(self) -> dict[int | float, int]:
        listed = [(exact_number(value), code) for code, value in self._not_texts]
        return {number: code for number, code in listed if number is not None}

    @cached_property
    def _truths(self) -> dict[bool, int]:
        return {value: code for code, value in self._not_texts if isinstance(value, bool)}

    @cached_property
    def _spelled_truths(self) -> dict[str, int]:
        """The codes of two texts of booleans, in lower case, and of True and False; else none."""
        truths = truths_of(self.values) if self.other is None else {}
        codes = {text.lower(): self._codes[text] for text in truths.values()}
        return codes | {str(truth).lower(): self._codes[text] for truth, text in truths.items()}

    @property
    def _not_texts(self) -> list[tuple[int, Value]]:
        pairs = enumerate(self.values)
        return [(code, value) for code, value in pairs if not isinstance(value, str)]

    def listed_code(self, value: object) -> int | None:
        """Return the code of the value with the same text; None if none is listed."""
        return self._codes.get(text_of(value))

    def code_of(self, value: object) -> int | None:
        """Return the code of a value, the code of `other` if it is not listed, or None.

        A value is listed if its text is (see `text_of`). A listed number or boolean also matches
        equal values and texts, such as 1.5 and ``"1.50"``, or True and ``"TRUE"``. Where a domain
        lists two texts of booleans, such as yes and no, and nothing else, booleans match them too,
        and so do texts in another case.
        """
        code = self._codes.get(text_of(value))
        if code is None and self._numbers:
            number = exact_number(value)
            code = None if number is None else self._numbers.get(number)
        if code is None and self._truths:
            truth = truth_of(value)
            code = None if truth is None else self._truths.get(truth)
        if code is None and self._spelled_truths:
            code = self._spelled_truths.get(text_of(value).lower())
        if code is None and self.other is not None:
            return self._codes[text_of(self.other)]
        return code

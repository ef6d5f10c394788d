"""Attributes of categories: a list of values, each a cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.validation import as_boolean, as_list
from jam_dagster.errors import DomainError, OutsideDomainError
from jam_dagster.tables.domain.attributes import (
    LISTED_VALUES,
    OUTSIDE,
    Attribute,
    CatchAll,
    Key,
    examples,
)
from jam_dagster.tables.domain.column_notes import EXAMPLES, GROUP_ADVICE, period_notes
from jam_dagster.tables.domain.columns import each_value, missing_in
from jam_dagster.tables.domain.text_dtype import dtype_of
from jam_dagster.tables.domain.values import (
    DTYPES_OF_KIND,
    Mask,
    Value,
    alone,
    check_dtype,
    exact_number,
    held_as,
    inferred_dtype,
    is_formula,
    kind_of,
    lookalike,
    plain_value,
    spelled,
    spelled_truth,
    text_of,
    truth_of,
    truths_of,
)


@dataclass(frozen=True)
class CategoricalAttribute(Attribute):
    """An attribute with a list of values, each a cell of its own.

    Parameters
    ----------
    name, nullable, dtype
        As in `Attribute`.
    values
        The values, in the order of their codes. No two may have the same text.
    other
        The listed value that encodes every unlisted one. None: an unlisted value is an error.
    unreadable
        "missing": without an `other`, an unlisted value is encoded as a missing one. "apart": it
        has a cell of its own.
    alike
        Whether texts that look alike are one value; see `spelled`. Values that were bought are.

    Raises
    ------
    DomainError
        No values, two values alike, `other` not among them, a dtype that cannot hold them, or
        `unreadable` is "apart" next to an `other`, or not "error" and the attribute is not
        nullable. With `alike`, a value is spelled otherwise.
    """

    values: tuple[Value, ...]
    other: Value | None = None
    _: KW_ONLY
    alike: bool = False

    keys: ClassVar[Mapping[str, Key]] = {
        "values": Key(
            "**needed**",
            "texts, numbers, or yes and no, each once. `1`, `1.0` and `'1'` are the same",
        ),
        "other": Key(
            "",
            "one of the values, which each that is not listed becomes. Without it, "
            "such a value is an error",
        ),
        "nullable": Key(
            "`false`", "whether values may be missing; a missing value has a cell of its own"
        ),
        "unreadable": Key(
            "`error`",
            "`missing` counts a value that is not listed, without `other`, as "
            "missing; `apart` has a cell of its own for these, which [says how many "
            "they are](../data.md#does-the-domain-fit). Both need `nullable`",
        ),
        "alike": Key(
            "`false`",
            "in a domain that was bought: whether texts are one value if they differ "
            "in outer blanks or in the form of Unicode (NFC)",
        ),
        "dtype": Key(
            "by the values",
            "the pandas type of the synthetic column; `category` and `ordered "
            "category` have the values as levels",
        ),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        values = tuple(plain_value(self.name, value) for value in self.values)
        object.__setattr__(self, "values", values)
        if not values:
            raise DomainError(f"attribute {self.name!r} has no values: list at least one")
        if len({text_of(value) for value in values}) < len(values):
            raise DomainError(
                f"attribute {self.name!r} lists a value twice"
                " (1, 1.0 and '1' count as the same): remove one"
            )
        if self.alike and any(spelled(text_of(value)) != text_of(value) for value in values):
            raise DomainError(
                f"attribute {self.name!r} has `alike`, and a value with outer blanks or in another"
                " form of Unicode than NFC: write it without"
            )
        if self.other is not None:
            code = self._codes.get(text_of(self.other))
            if code is None:
                raise DomainError(
                    f"attribute {self.name!r}: other is {self.other!r}, which is not one of its"
                    " values: add it to them"
                )
            object.__setattr__(self, "other", values[code])
            if self.unreadable == "apart":
                raise DomainError(
                    f"attribute {self.name!r} has an other, which encodes every value that is not"
                    " listed: remove it, or `unreadable: apart`"
                )
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
        # Numbers of Python have their text sooner than those of NumPy.
        if [*map(text_of, stored.tolist())] != [*map(text_of, self.values)]:
            raise DomainError(
                f"attribute {self.name!r} has values that dtype {self.dtype} changes: use a wider"
                " dtype, or texts"
            )

    @property
    def size(self) -> int:
        return len(self.values) + self.nullable + (self.unreadable == "apart")

    def _labels(self) -> Iterator[str]:
        return map(text_of, self.values)

    @property
    def other_code(self) -> int | None:
        return None if self.other is None else self._codes[text_of(self.other)]

    @property
    def catch_all_cells(self) -> list[CatchAll]:
        other = [] if self.other_code is None else [CatchAll("other", self.other_code)]
        return [*other, *super().catch_all_cells]

    @property
    def listed(self) -> tuple[Value, ...]:
        return self.values

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
    def _lookalikes(self) -> dict[str, int]:
        """The codes of the texts that look like no other."""
        found = alone(text_of(value) for value in self.values)
        return {key: self._codes[text] for key, text in found.items() if text in self._texts}

    @cached_property
    def _texts(self) -> set[str]:
        return {value for value in self.values if isinstance(value, str)}

    @cached_property
    def _spelled_truths(self) -> dict[bool, int]:
        """The codes of false and true, if these are the two values and there is no `other`."""
        truths = truths_of(self.values) if self.other is None else {}
        return {truth: self._codes[text] for truth, text in truths.items()}

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
        equal values and texts, such as 1.5 and ``"1.50"``, or True and ``"TRUE"``. If a domain
        lists a boolean's two values and nothing else, in any spelling, every other one matches
        them too (see `spelled_truth`). A text matches the only listed text that looks like it (see
        `lookalike`); with `alike`, case counts.
        """
        code = self._codes.get(text_of(value))
        if code is None and self.alike:
            code = self._codes.get(spelled(text_of(value)))
        if code is None and self._numbers:
            number = exact_number(value)
            code = None if number is None else self._numbers.get(number)
        if code is None and self._truths:
            truth = truth_of(value)
            code = None if truth is None else self._truths.get(truth)
        if code is None and self._spelled_truths:
            truth = spelled_truth(value)
            code = None if truth is None else self._spelled_truths[truth]
        if code is None and isinstance(value, str) and not self.alike:
            code = self._lookalikes.get(lookalike(value))
        return self.other_code if code is None else code

    @property
    def kind_text(self) -> str:
        return "ordered category" if self.ordered else "category"

    @property
    def outside_text(self) -> str:
        null = "an error" if self.unreadable == "error" else "counted as null"
        return null if self.other is None else f"counted as {self.other}"

    def values_text(self, shown: int) -> str:
        labels = self.labels[: len(self.values)]
        more = f" and {len(labels) - shown} more" if len(labels) > shown else ""
        return f"{', '.join(labels[:shown])}{more}"

    def _described(self) -> str:
        labels = self.labels[: len(self.values)]
        if len(labels) > LISTED_VALUES:
            return f"one of {len(labels)} values: {', '.join(labels[:LISTED_VALUES])}, ..."
        return f"one of {', '.join(labels)}"

    @classmethod
    def from_entry(cls, name: str, entry: Mapping[str, Any]) -> CategoricalAttribute:
        what = f"attribute {name!r}"
        values = tuple(as_list(what, "values", entry["values"]))
        alike = as_boolean(what, "alike", entry.get("alike", False))
        return cls(name, values, entry.get("other"), alike=alike, **cls.shared(what, entry))

    def _own_entry(self) -> dict[str, Any]:
        other = {} if self.other is None else {"other": self.other}
        alike = {"alike": True} if self.alike else {}
        return {"values": list(self.values), **other, **alike}

    @property
    def _default_dtype(self) -> str:
        return inferred_dtype(kind_of(self.values), self.nullable)

    def canonical_form(self) -> dict[str, Any]:
        alike = {"alike": True} if self.alike else {}
        own = {"values": list(self.values), "other": self.other, **alike}
        return super().canonical_form() | own

    def condition_codes(self, what: str, item: object) -> list[int]:
        listed = None if isinstance(item, Mapping) else self.listed_code(item)
        if listed is None:
            raise DomainError(f"{what} is {item!r}, which is not one of its values")
        return [listed]

    def conditions(self, codes: list[int]) -> list[Any]:
        return [self.values[code] for code in codes]

    def check_column(self, column: pd.Series[Any]) -> None:
        if not self._holds(column.dtype):
            raise DomainError(
                f"attribute {self.name!r} lists no value that a column of dtype {column.dtype} can"
                " hold, as the table's is: list its values, or write the listed ones in the source"
            )

    def _holds(self, dtype: Any) -> bool:
        """Return whether a column of truths or whole numbers may have a value that is listed."""
        if pd.api.types.is_bool_dtype(dtype):
            return any(self.code_of(one) is not None for one in (True, False))
        if pd.api.types.is_integer_dtype(dtype):
            numbers = any(exact_number(text_of(one)) is not None for one in self.values)
            return numbers or any(self.code_of(one) is not None for one in (0, 1))
        return True

    def codes_in(self, column: pd.Series[Any]) -> tuple[npt.NDArray[np.intp], Mask]:
        null = missing_in(column)
        other = self.other_code

        def code_of(value: object) -> int:
            try:
                code = self.code_of(value)
            except Exception:  # A value in memory may be of any type, and have no text.
                code = other
            return OUTSIDE if code is None else code

        codes = each_value(column, code_of, OUTSIDE, np.intp)
        if self.unreadable == "missing":
            null = null | (codes < 0)
        if self.unreadable_code is not None:
            codes[(codes < 0) & ~null] = self.unreadable_code
        outside = (codes < 0) & ~null
        if outside.any():
            raise OutsideDomainError(
                f"attribute {self.name!r}: the table holds a value that is not in the domain"
                f"{examples(column, outside)}: add it to the attribute's values, declare a value"
                " as `other`, or correct the source"
            )
        return codes, null

    def listed_codes(self, column: pd.Series[Any]) -> npt.NDArray[np.int64]:
        indices, values = pd.factorize(column)
        codes = [self._codes.get(text_of(value), OUTSIDE) for value in values]
        # Nulls have index -1, so their code comes last.
        null = OUTSIDE if self.null_code is None else self.null_code
        return np.array([*codes, null], dtype=np.int64)[indices]

    def column_of(self, points: npt.NDArray[Any], null: Mask) -> pd.Series[Any]:
        dtype = dtype_of(str(self.dtype))
        listed = held_as(self.listed, self.dtype)
        values: Any = [*listed, *[None] * len(self.missing_codes)]
        if dtype == "category":
            dtype = pd.CategoricalDtype(listed, self.ordered)
        taken: Any = pd.array(values, dtype=dtype).take(points.astype(np.intp))
        column: pd.Series[Any] = pd.Series(taken, dtype=dtype)
        return column

    def notes(self, column: pd.Series[Any], codes: npt.NDArray[Any]) -> Iterator[str]:
        if self.other is not None:
            # How many texts become `other`, in how many rows.
            rest = column[codes == self.other_code]
            gone = [one for one in rest.unique() if one != self.other and not is_formula(one)]
            if rows := int(rest.isin(gone).sum()):
                yield (
                    f"{len(gone):,} of {column.nunique():,} texts become {self.other!r}, in"
                    f" {100 * rows / len(column):.0f}% of the public rows{GROUP_ADVICE}"
                )
            runs = [repr(one) for one in column.dropna().unique() if is_formula(one)]
            if runs:
                shown = ", ".join(runs[:EXAMPLES])
                yield f"texts that a spreadsheet would run become {self.other!r}: {shown}"
        seen: dict[str, Value] = {}
        pairs = (
            (first, value)
            for value in self.values
            if isinstance(value, str)
            and (first := seen.setdefault(" ".join(value.casefold().split()), value)) != value
        )
        for first, value in islice(pairs, 1):
            yield f"{first!r} and {value!r} are two values: make them one in the source if they are"
        later = "are missing" if self.other is None else f"become {self.other!r}"
        yield from period_notes(column, later)

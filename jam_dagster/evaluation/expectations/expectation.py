"""Base of all expectations: its name and words, what is asked, and what was found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.evaluation.expectations.spec import ExpectationSpec

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.tables.domain.attributes import Attribute
    from jam_dagster.tables.domain.derived import DerivedColumn
    from jam_dagster.tables.domain.domain import Domain


@dataclass(frozen=True)
class CheckGroup:
    """An asset check that stands for one or more expectations."""

    name: str
    description: str
    blocking: bool


class Asked(NamedTuple):
    """A class of Great Expectations, its arguments, and the expected content in a few words."""

    expectation: str
    arguments: dict[str, Any]
    expected: str


class Observed(NamedTuple):
    """The finding: a sentence, the numbers behind it, and the counts of `ExpectationResult`."""

    message: str
    metadata: dict[str, Any]
    checked: int | None = None
    unexpected: int | None = None


@dataclass(frozen=True)
class Expectation(ABC):
    """An expectation of a table; its class is a kind of expectations."""

    spec: ExpectationSpec
    table: CheckedTable

    name: ClassVar[str]
    heading: ClassVar[str]
    group: ClassVar[CheckGroup]
    suite: ClassVar[str] = "synthetic_records"
    """Expectations of one suite are checked on one frame."""

    @classmethod
    def of_table(cls, domain: Domain) -> Iterator[ExpectationSpec]:
        """Yield the expectations of a table as a whole."""
        yield from ()

    @classmethod
    def of_column(cls, column: Attribute | DerivedColumn) -> str | None:
        """Return the expectation of a column in words, None if it has none."""
        return None

    @classmethod
    def rules(cls, domain: Domain) -> Sequence[Any]:
        """Return the rules of a domain, in which an integer as a subject is a place."""
        return ()

    @classmethod
    def frame(cls, table: CheckedTable) -> pd.DataFrame:
        """Return the frame that Great Expectations looks at for the expectations of the suite.

        It lacks some expectations on pandas (nullable dtypes, impossible combinations, tolerances);
        these have frames of their own that it can check.
        """
        return table.with_numbers()

    @property
    def attribute(self) -> Any:
        """The attribute that the expectation is of."""
        return self.table.domain.attribute(str(self.spec.subject))

    @property
    def measured(self) -> bool:
        """Whether there is something to compare with."""
        return not self.unmeasured

    @property
    def unmeasured(self) -> str:
        """Why there is nothing to compare with; empty if there is something."""
        return ""

    @abstractmethod
    def asked(self) -> Asked:
        """Return what Great Expectations is asked."""

    def complete(self, outcome: dict[str, Any]) -> None:  # noqa: B027  # Most have nothing to say.
        """Extend the finding about the relevant rows to the whole table."""

    @abstractmethod
    def observed(self, outcome: Mapping[str, Any]) -> Observed:
        """Return what Great Expectations found, in words and numbers."""

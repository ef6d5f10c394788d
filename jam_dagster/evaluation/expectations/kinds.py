"""The kinds of expectations of a synthetic table, a class each.

A class has the kind's name, its words, what Great Expectations looks at, and what is said of the
result. It reads the synthetic table, its domain, released measurements and the public table,
nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar

from jam_dagster.common.deferred import pd
from jam_dagster.evaluation.domain_fit import remedy_sentence, unknown_sentences
from jam_dagster.evaluation.expectations.checked_table import (
    FALSE_ALARM_LEVEL,
    CheckedTable,
    Counted,
)
from jam_dagster.evaluation.expectations.expectation import (
    Asked,
    CheckGroup,
    Expectation,
    Observed,
)
from jam_dagster.evaluation.expectations.spec import ExpectationSpec
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.constraints import Constraint
from jam_dagster.tables.domain.derived import DerivedColumn, PlannedColumn
from jam_dagster.tables.domain.impossible import ImpossibleCombination
from jam_dagster.tables.domain.lookups import Lookup
from jam_dagster.tables.domain.text_dtype import name_of
from jam_dagster.tables.domain.totals import Total
from jam_dagster.tables.domain.unique import Unique
from jam_dagster.tables.domain.values import held_as

if TYPE_CHECKING:
    from jam_dagster.tables.domain.attributes import Attribute
    from jam_dagster.tables.domain.domain import Domain

Rule = ImpossibleCombination | Constraint | Unique | PlannedColumn | Total
"""A rule that a row may break."""


# Questions that a person asks about a table.
_SCHEMA = CheckGroup("schema", "Columns, types and number of rows are those of the domain.", True)
_VALUES = CheckGroup("values", "Every value is one that the domain allows.", True)
_CONSTRAINTS = CheckGroup(
    "constraints", "No row holds an impossible combination or breaks a constraint.", True
)
MEASURED_MARGINALS = CheckGroup(
    "measured_marginals",
    "Every one-way marginal agrees with its released measurement.",
    False,
)
RULES = CheckGroup(
    "rules", "Rows keep what every public row keeps, and derived columns follow from others.", False
)
DOMAIN_FITS = CheckGroup(
    "domain_fits",
    "The domain holds the private table's values, by released measurements.",
    False,
)
GROUPS = (_SCHEMA, _VALUES, _CONSTRAINTS, RULES, MEASURED_MARGINALS, DOMAIN_FITS)


_PERCENT = ("unexpected_percent", "unexpected_percent_nonmissing")


class _Columns(Expectation):
    """The columns are those of the domain, in its order."""

    name, heading, group = "columns", "Columns and their order", _SCHEMA

    @classmethod
    def of_table(cls, domain: Domain) -> Iterator[ExpectationSpec]:
        words = f"The columns are those of the domain, in its order: {', '.join(domain.columns)}."
        yield ExpectationSpec(cls.name, words, True, cls.name)

    def asked(self) -> Asked:
        columns = {"column_list": list(self.table.domain.columns)}
        expected = f"{len(self.table.domain.columns):,} columns, in order"
        return Asked("ExpectTableColumnsToMatchOrderedList", columns, expected)

    def observed(self, outcome: Mapping[str, Any]) -> Observed:
        found, wanted = list(outcome["result"]["observed_value"]), list(self.table.domain.columns)
        faults = {
            "missing": [name for name in wanted if name not in found],
            "unexpected": [name for name in found if name not in wanted],
        }
        message = "; ".join(f"{word} {', '.join(names)}" for word, names in faults.items() if names)
        if not message:
            in_order = f"{len(wanted)} columns, in order"
            message = in_order if found == wanted else f"another order: {', '.join(found)}"
        return Observed(message, {"columns": found, **faults})


class _RowCount(Expectation):
    """There are as many rows as private records."""

    name, heading, group = "row_count", "Number of rows", _SCHEMA

    @classmethod
    def of_table(cls, domain: Domain) -> Iterator[ExpectationSpec]:
        words = "There are as many rows as the release says that there are private records."
        yield ExpectationSpec(cls.name, words, True, cls.name)

    def asked(self) -> Asked:
        records = self.table.records
        told = len(self.table.synthetic) - self.table.rows
        return Asked("ExpectTableRowCountToEqual", {"value": records + told}, f"{records:,} rows")

    def complete(self, outcome: dict[str, Any]) -> None:
        outcome["result"]["observed_value"] = self.table.rows
        outcome["expectation_config"]["kwargs"]["value"] = self.table.records

    def observed(self, outcome: Mapping[str, Any]) -> Observed:
        rows = outcome["result"]["observed_value"]
        metadata = {"rows": rows, "expected": self.table.records}
        return Observed(f"{rows:,} rows, {self.table.records:,} expected", metadata)


class _Dtype(Expectation):
    """A column has the declared dtype."""

    name, heading, group, suite = "dtype", "Types", _SCHEMA, "column_types"

    @classmethod
    def of_column(cls, column: Attribute | DerivedColumn) -> str | None:
        return f"{column.name} has the type that the domain declares."

    @classmethod
    def frame(cls, table: CheckedTable) -> pd.DataFrame:
        return pd.DataFrame([{name: name_of(one) for name, one in table.synthetic.dtypes.items()}])

    def asked(self) -> Asked:
        dtype = self.table.domain.columns[str(self.spec.subject)]
        values = {"column": self.spec.subject, "value_set": [dtype]}
        return Asked("ExpectColumnValuesToBeInSet", values, dtype)

    def observed(self, outcome: Mapping[str, Any]) -> Observed:
        expected = self.asked().expected
        if outcome["success"]:
            return Observed(f"dtype {expected}", {"dtype": expected})
        found = outcome["result"]["partial_unexpected_list"][0]
        metadata = {"dtype": found, "expected": expected}
        return Observed(f"dtype {found}, expected {expected}", metadata)


class _OfRows(Expectation):
    """A kind whose expectations every row meets or fails."""

    fault: ClassVar[str]
    quoted: ClassVar[bool] = False

    def faults(self, counted: Counted) -> int:
        """Return how many rows of the chunks fail it."""
        return counted.faults[str(self.spec.subject)]

    def complete(self, outcome: dict[str, Any]) -> None:
        result, counted = outcome["result"], self.table.counted
        if counted is None or "element_count" not in result:
            return
        rows, unexpected = counted.rows, result["unexpected_count"]
        if unexpected:
            # In a column of another type, Great Expectations may find other values at fault.
            unexpected = max(unexpected, self.faults(counted))
        result["unexpected_count"] = unexpected
        column = self.spec.subject
        missing = counted.nulls[column] if isinstance(column, str) else 0
        result["element_count"] = rows
        if "missing_count" in result:
            result["missing_count"] = missing
            result["missing_percent"] = missing / rows * 100
            result["unexpected_percent_total"] = unexpected / rows * 100
            rows -= missing
        percent = unexpected / rows * 100 if rows else None
        result |= {name: percent for name in _PERCENT if name in result}

    def observed(self, outcome: Mapping[str, Any]) -> Observed:
        result: Mapping[str, Any] = outcome["result"]
        checked, unexpected = int(result["element_count"]), int(result["unexpected_count"])
        metadata: dict[str, Any] = {"rows": checked, "unexpected": unexpected}
        if unexpected == 0:
            return Observed(f"all {checked:,} rows", metadata, checked, unexpected)
        of_rows = "row" if unexpected == 1 else "rows"
        message = f"{unexpected:,} {of_rows} ({_percent(unexpected, checked)}) {self.fault}"
        if self.quoted:
            examples = list(dict.fromkeys(map(str, result["partial_unexpected_list"])))[:5]
            metadata["examples"] = examples
            message += f", such as {', '.join(examples)}"
        return Observed(message, metadata, checked, unexpected)


class _Values(_OfRows):
    """An attribute of categories holds only the listed values."""

    name, heading, group = "values", "Values of categories", _VALUES
    fault, quoted = "with a value that the domain does not list", True

    @classmethod
    def of_column(cls, column: Attribute | DerivedColumn) -> str | None:
        if isinstance(column, DerivedColumn) or column.binned:
            return None
        return f"{column.name} holds only the values that the domain lists."

    def asked(self) -> Asked:
        listed = held_as(self.attribute.listed, self.attribute.dtype)
        values = {"column": self.spec.subject, "value_set": listed}
        return Asked("ExpectColumnValuesToBeInSet", values, self.attribute.describe())


class _Bounds(_OfRows):
    """A numeric attribute is within its bounds."""

    name, heading, group = "bounds", "Bounds of numbers", _VALUES
    fault, quoted = "out of bounds", True

    @classmethod
    def of_column(cls, column: Attribute | DerivedColumn) -> str | None:
        if not isinstance(column, BinnedAttribute):
            return None
        low, high = column.bounds_text
        return f"{column.name} is between {low} and {high}."

    def asked(self) -> Asked:
        edges = self.attribute.edges
        bounds = {"column": self.spec.subject, "min_value": edges[0], "max_value": edges[-1]}
        expected = " to ".join(self.attribute.bounds_text)
        return Asked("ExpectColumnValuesToBeBetween", bounds, expected)


class _Nulls(_OfRows):
    """An attribute has no nulls where the domain allows none."""

    name, heading, group = "nulls", "Nulls", _VALUES
    fault = "with a null that the domain does not allow"

    @classmethod
    def of_column(cls, column: Attribute | DerivedColumn) -> str | None:
        if isinstance(column, DerivedColumn) or column.nullable:
            return None
        return f"{column.name} has no nulls: the domain allows none."

    def asked(self) -> Asked:
        return Asked("ExpectColumnValuesToNotBeNull", {"column": self.spec.subject}, "no null")

    def faults(self, counted: Counted) -> int:
        return counted.nulls[str(self.spec.subject)]


class _Impossible(_OfRows):
    """No row holds an impossible combination or breaks a constraint."""

    name, heading = "impossible", "Impossible combinations and constraints"
    group, suite = _CONSTRAINTS, "impossible_combinations"
    fault = "with a combination that the domain declares impossible"

    @classmethod
    def rules(cls, domain: Domain) -> Sequence[Rule]:
        """Return what no row may break."""
        return domain.forbidden

    @classmethod
    def of_table(cls, domain: Domain) -> Iterator[ExpectationSpec]:
        combinations = len(domain.impossible)
        for index, one in enumerate(domain.forbidden):
            name = f"constraint_{index - combinations + 1}"
            words = f"Every row keeps the constraint: {one.describe(domain)}."
            if isinstance(one, ImpossibleCombination):
                name = f"impossible_combination_{index + 1}"
                words = f"No row holds a combination that cannot be: {one.describe(domain)}."
            yield ExpectationSpec(name, words, True, cls.name, index)

    @classmethod
    def frame(cls, table: CheckedTable) -> pd.DataFrame:
        """Return, for every row and impossible combination or constraint, whether it breaks it.

        A combination over a missing column has no column here either, so that its expectation
        fails instead of passing unnoticed.
        """
        rules = cls.rules(table.domain)
        specs = cls.of_table(table.domain)
        broken = {spec.name: table.broken(rules[int(spec.subject or 0)]) for spec in specs}
        known = {name: rows for name, rows in broken.items() if rows is not None}
        return pd.DataFrame(known, index=table.synthetic.index)

    def asked(self) -> Asked:
        values = {"column": self.spec.name, "value_set": [False]}
        return Asked("ExpectColumnValuesToBeInSet", values, "no such row")

    def faults(self, counted: Counted) -> int:
        rule = self.rules(self.table.domain)[int(self.spec.subject or 0)]
        return counted.faults[self.table.rules.index(rule)]


class _Kept(_Impossible):
    """How many rows break what all public rows keep."""

    name, heading, group, suite = "rule", "Rules that synthetic rows keep", RULES, "rules"
    fault = "break it"

    @classmethod
    def rules(cls, domain: Domain) -> Sequence[Rule]:
        return domain.rules

    @classmethod
    def of_table(cls, domain: Domain) -> Iterator[ExpectationSpec]:
        for index, one in enumerate(domain.rules):
            how = one.described if isinstance(one, PlannedColumn) else one.describe(domain)
            name = f"{one.name}: " if isinstance(one, PlannedColumn) else ""
            words = f"Every row keeps a rule: {name}{how}."
            yield ExpectationSpec(f"rule_{index + 1}", words, False, cls.name, index)

    def observed(self, outcome: Mapping[str, Any]) -> Observed:
        found = super().observed(outcome)
        rule = self.spec.description.partition(": ")[2].removesuffix(".")
        return found._replace(metadata=found.metadata | {"rule": rule})


class _RootKeys(_Impossible):
    """Each root has a key of its own, and as many children as its table allows."""

    name, heading, suite = "root_keys", "Keys of roots and their children", "root_keys"
    fault = "without a key of its own, or with too many children"

    @classmethod
    def of_table(cls, domain: Domain) -> Iterator[ExpectationSpec]:
        if domain.children is not None:
            link = domain.children.link
            words = (
                f"Each row has a {link.column} of its own, and at most {link.maximum} rows of"
                f" {link.table}."
            )
            yield ExpectationSpec(cls.name, words, True, cls.name)

    @classmethod
    def frame(cls, table: CheckedTable) -> pd.DataFrame:
        """Return for each root whether its key is no key, or its children are too many."""
        link, keys, owners = table.keys
        number = owners.value_counts().reindex(keys, fill_value=0).to_numpy()
        broken = keys.isna() | keys.duplicated(keep=False) | (number > link.maximum)
        return pd.DataFrame({cls.name: broken.to_numpy()})


class _ChildKeys(_RootKeys):
    """Each child has a root."""

    name, heading, suite = "child_keys", "Keys of children", "child_keys"
    fault = "without a root"

    @classmethod
    def of_table(cls, domain: Domain) -> Iterator[ExpectationSpec]:
        if domain.children is not None:
            link = domain.children.link
            words = (
                f"The {link.column} of each row of {link.table} is that of a row of its root table."
            )
            yield ExpectationSpec(cls.name, words, True, cls.name, table=link.table)

    @classmethod
    def frame(cls, table: CheckedTable) -> pd.DataFrame:
        """Return for each child whether no root has its key."""
        _, keys, owners = table.keys
        return pd.DataFrame({cls.name: ~owners.isin(keys).to_numpy()})


class _Totals(_Kept):
    """How many roots break what a column says of their children."""

    name, heading, suite = "total", "Totals of children", "totals"

    @classmethod
    def of_table(cls, domain: Domain) -> Iterator[ExpectationSpec]:
        for index, one in enumerate(domain.children.totals if domain.children else ()):
            words = f"Every row keeps a rule: {one.describe(domain)}."
            yield ExpectationSpec(f"total_{index + 1}", words, False, cls.name, one.name)

    @classmethod
    def frame(cls, table: CheckedTable) -> pd.DataFrame:
        """Return for each root and total whether its children give another one."""
        totals = table.domain.children.totals if table.domain.children else ()
        broken = {f"total_{at + 1}": table.broken(one) for at, one in enumerate(totals)}
        known = {name: rows for name, rows in broken.items() if rows is not None}
        return pd.DataFrame(known, index=table.synthetic.index)


class _WithinRoots(_Kept):
    """How many children break what holds within their root."""

    name, heading, suite = "within_roots", "Rules within a root", "within_roots"

    @classmethod
    def of_table(cls, domain: Domain) -> Iterator[ExpectationSpec]:
        if (two := domain.children) is None:
            return
        for index, one in enumerate((*two.rules, *two.numbers)):
            words = f"Every row keeps a rule: {one.describe(two.both)}."
            name, columns = f"{cls.name}_{index + 1}", ", ".join(one.attributes)
            yield ExpectationSpec(name, words, False, cls.name, columns, two.link.table)

    @classmethod
    def frame(cls, table: CheckedTable) -> pd.DataFrame:
        """Return for each child and rule whether the child breaks it."""
        two, children = table.domain.children, table.children
        rules = (*two.rules, *two.numbers) if two else ()
        broken = {
            f"{cls.name}_{at + 1}": table.broken_by_children(one) for at, one in enumerate(rules)
        }
        known = {name: rows for name, rows in broken.items() if rows is not None}
        return pd.DataFrame(known, index=None if children is None else children.index)


class _Marginal(Expectation):
    """The distribution of an attribute agrees with its released measurement."""

    name, heading = "marginal", "Distributions against their measurements"
    group, suite = MEASURED_MARGINALS, "measured_marginals"

    @classmethod
    def of_column(cls, column: Attribute | DerivedColumn) -> str | None:
        if isinstance(column, DerivedColumn):
            return None
        return (
            f"The distribution of {column.name} agrees with the released measurement of it, as far"
            " as noise, fit and sampling allow."
        )

    @property
    def unmeasured(self) -> str:
        covered = self.spec.subject in self.table.agreements
        return "" if covered else "not measured: no private measurement covers it"

    @classmethod
    def frame(cls, table: CheckedTable) -> pd.DataFrame:
        """Return one row for every cell of every measured one-way marginal."""
        frames = [
            pd.DataFrame(
                {
                    "attribute": name,
                    "cell": table.domain.attribute(name).labels,
                    "released": agreement.released.counts,
                    "synthetic": agreement.synthetic,
                    "tolerance": agreement.tolerance,
                    "use_of_tolerance": agreement.use_of_tolerance,
                }
            )
            for name, agreement in table.agreements.items()
        ]
        return pd.concat(frames, ignore_index=True)

    def asked(self) -> Asked:
        from great_expectations.expectations.row_conditions import Column

        cells = Column("attribute") == str(self.spec.subject)
        most = {"column": "use_of_tolerance", "max_value": 1.0, "row_condition": cells}
        return Asked("ExpectColumnValuesToBeBetween", most, "every cell within the tolerance")

    def observed(self, outcome: Mapping[str, Any]) -> Observed:
        agreement = self.table.agreements[str(self.spec.subject)]
        labels = self.attribute.labels
        use, released = agreement.use_of_tolerance, agreement.released
        worst, beyond = int(use.argmax()), int((use > 1.0).sum())
        metadata = {
            "measured": True,
            "rounds": [one + 1 for one in released.rounds],
            "sigma": released.sigma,
            "l1_distance": agreement.distance,
            "cells": int(use.size),
            "cells_beyond_tolerance": beyond,
            "largest_use_of_tolerance": float(use[worst]),
            "worst_cell": labels[worst],
            "misfit": agreement.misfit,
            "false_alarm_level": FALSE_ALARM_LEVEL,
        }
        message = (
            f"{beyond} of {use.size} cells beyond the tolerance; worst {labels[worst]!r}: "
            f"{agreement.synthetic[worst]:,.0f} records, measured {released.counts[worst]:,.0f}, "
            f"tolerance {agreement.tolerance[worst]:,.0f}"
            if beyond
            else f"all {use.size} cells within the tolerance"
        )
        message += (
            f"; L1 distance {agreement.distance:.4f} to the released measurement "
            f"(noise of {released.sigma:,.0f} records a cell)"
        )
        if not beyond and agreement.misfit > 0:
            message += (
                f"; the model itself departs by up to {agreement.misfit:.2%} of the records in a"
                " cell more than noise explains, because of other measurements"
            )
        return Observed(message, metadata, int(use.size), beyond)


class _Fit(Expectation):
    """The catch-all cells of an attribute hold about as much as in the public table."""

    name, heading = "fit", "Fit of the domain"
    group, suite = DOMAIN_FITS, "domain_fits"

    @classmethod
    def of_column(cls, column: Attribute | DerivedColumn) -> str | None:
        if isinstance(column, DerivedColumn):
            if not isinstance(column.expression, Lookup):
                return None
            return f"{column.name} is {column.expression}, which nothing compares."
        if not column.catch_all_cells:
            return None
        return (
            f"The domain holds the values of {column.name}: it is not unreadable, missing, `other`"
            " or at a bound far more often than in the public table."
        )

    @property
    def unmeasured(self) -> str:
        if self.spec.subject not in self.table.fits:
            return "not known: its values are those of a table in the domain"
        return " ".join(unknown_sentences([self.table.fits[str(self.spec.subject)]]))

    @classmethod
    def frame(cls, table: CheckedTable) -> pd.DataFrame:
        """Return one row for every catch-all cell of every measured attribute."""
        rows = [
            {
                "attribute": name,
                "cell": one.label,
                "released": one.released,
                "public": one.public,
                "limit": one.limit,
                "use_of_limit": one.released / one.limit,
            }
            for name, fit in table.fits.items()
            for one in fit.shares
        ]
        return pd.DataFrame(rows)

    def asked(self) -> Asked:
        from great_expectations.expectations.row_conditions import Column

        cells = Column("attribute") == str(self.spec.subject)
        below = {"max_value": 1.0, "strict_max": True}
        asked = {"column": "use_of_limit", "row_condition": cells} | below
        expected = "no such cell far above its public share"
        return Asked("ExpectColumnValuesToBeBetween", asked, expected)

    def observed(self, outcome: Mapping[str, Any]) -> Observed:
        fit = self.table.fits[str(self.spec.subject)]
        remedy = remedy_sentence([fit])
        beyond = sum(one.released >= one.limit for one in fit.shares)
        cells = [asdict(one) for one in fit.shares]
        metadata = {"measured": True, "cells": cells, "remedy": remedy}
        message = " ".join((*map(fit.sentence, fit.shares), remedy)).rstrip()
        return Observed(message, metadata, len(fit.shares), beyond)


EXPECTATION_KINDS: dict[str, type[Expectation]] = {
    kind.name: kind
    for kind in (
        *(
            _Columns,
            _RowCount,
            _Dtype,
            _Values,
            _Bounds,
            _Nulls,
            _Impossible,
            _Kept,
            _RootKeys,
            _ChildKeys,
            _Totals,
            _WithinRoots,
            _Marginal,
            _Fit,
        ),
    )
}


def expectation_names(domain: Domain) -> list[ExpectationSpec]:
    """List the expectations of a synthetic table over a domain.

    Parameters
    ----------
    domain
        The domain; nothing else is read.

    Returns
    -------
    list of ExpectationSpec
        Table-wide expectations first, then those of each attribute in domain order, then the types
        of derived columns. Names are unique: a number distinguishes columns with names that differ
        only in characters that a check's name cannot hold. If the domain is of two tables, those of
        the roots come first, then those of the children, then those of their keys.
    """
    if domain.children is None:
        return _names_of_one(domain)
    table = domain.children.link.table
    children = [
        replace(
            one, name=f"{table}__{one.name}", description=f"{table}: {one.description}", table=table
        )
        for one in names_of_children(domain.children.domain)
    ]
    return [*_names_of_one(domain.roots), *children, *names_of_keys(domain)]


def names_of_children(domain: Domain) -> list[ExpectationSpec]:
    """List the expectations of a table of children by its domain.

    Its number of rows and its distributions are in no measurement as they are.
    """
    measured = {_RowCount.name, _Marginal.name}
    return [one for one in _names_of_one(domain) if one.kind not in measured]


def names_of_keys(domain: Domain) -> list[ExpectationSpec]:
    """List the expectations of the keys of two tables, of totals, and of rules within a root."""
    kinds = (_RootKeys, _ChildKeys, _Totals, _WithinRoots)
    return [spec for kind in kinds for spec in kind.of_table(domain)]


def _names_of_one(domain: Domain) -> list[ExpectationSpec]:
    kinds = EXPECTATION_KINDS.values()
    specs = [spec for kind in kinds for spec in kind.of_table(domain)]
    columns: list[Attribute | DerivedColumn] = [*domain.attributes, *domain.derived]
    for column, slug in zip(columns, _slugs([one.name for one in columns]), strict=True):
        for kind in kinds:
            if words := kind.of_column(column):
                blocks, name = kind.group.blocking, f"{slug}__{kind.name}"
                specs.append(ExpectationSpec(name, words, blocks, kind.name, column.name))
    return specs


def _slugs(names: Sequence[str]) -> list[str]:
    """Return for each name a unique one of letters, digits and underscores."""
    slugs: dict[str, None] = {}
    for name in names:
        base = slug = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "attribute"
        number = 1
        while slug in slugs:
            number += 1
            slug = f"{base}_{number}"
        slugs[slug] = None
    return list(slugs)


def _percent(part: int, whole: int) -> str:
    """Return a share of the rows in two digits; only all of them are 100%."""
    share = 100.0 * part / whole
    if part < whole and share >= 99.5:
        return "more than 99%"
    if share < 0.01:
        return "less than 0.01%"
    return f"{share:.0f}%" if share >= 9.95 else f"{share:.2g}%"

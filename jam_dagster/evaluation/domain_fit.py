"""Whether the domain holds the values of the private table, by released measurements alone.

A value that a domain does not hold is counted in a catch-all cell: as unreadable, as missing, as
`other`, or in the first or last bin. A column that the domain does not fit ends up there almost
whole, and the workload error does not show it, because that is taken after encoding. Comparing
released counts of these cells with the public table is post-processing and costs no privacy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

from jam_dagster.evaluation.released_marginals import released_marginal
from jam_dagster.evaluation.sentences import listed, said
from jam_dagster.tables.codes.public import PublicTables
from jam_dagster.tables.domain.attributes import Caught
from jam_dagster.tables.domain.children import ChildAttribute
from jam_dagster.tables.domain.lookups import Lookup

if TYPE_CHECKING:
    import numpy.typing as npt

    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.attributes import Attribute
    from jam_dagster.tables.domain.domain import Domain

FAR = {"unreadable": 0.2, "missing": 0.2, "other": 0.2, "bound": 0.4, "half": 0.2}
"""The least excess over the public share, a fraction of the records, that is a misfit.

Large compared with ordinary differences between populations: groups of Adult's people (by sex,
income, race or education) differ by up to 2 points in `other`, and the demo's tables by 8 in
missing cells.
The first and last bin also count values within the bounds: there the groups differ by up to 28.
"""

NEVER = 0.05
"""The same for missing or unreadable cells of a column where no public cell is so.

Synthetic rows are repaired to have no missing cell there, so whatever is missing is lost.
"""

ALMOST_ALL = 0.98
"""The least share of one of two bins that is a misfit, where public values are in both."""

ALONE = 0.95
"""The least share of a catch-all cell that is a misfit where there is no public table.

Unreadable cells are one from `FAR` on: no people have them if their domain fits.
"""

MORE_THAN_ALL = 2.0
"""A share that no cell has, whatever its noise."""

FALSE_ALARM_LEVEL = 0.001
"""The probability that noise alone takes any cell of a release beyond its allowance."""


@dataclass(frozen=True)
class CatchAllShare:
    """The released share of a catch-all cell and the public one, as fractions of the records.

    `caught` is what the cell counts. `public` is None if no public table has the column. `noise` is
    the largest distance of `released` from the truth by noise alone. `usual` is the public share
    that `released` may have; None: `public`.
    """

    caught: Caught
    label: str
    released: float
    public: float | None
    noise: float
    usual: float | None = None

    @property
    def base(self) -> float:
        """The share that is no excess."""
        return (self.public if self.usual is None else self.usual) or 0.0

    @property
    def excess(self) -> float:
        """How much the released share exceeds the public one."""
        return self.released - self.base

    @property
    def far(self) -> float:
        """The share from which on the cell is a misfit, were there no noise."""
        if self.public is None:
            # One of two bins may hold all values truly.
            alone = {"half": MORE_THAN_ALL, "unreadable": FAR["unreadable"]}
            return alone.get(self.caught, ALONE)
        if self.caught == "half":
            return max(ALMOST_ALL, self.public + FAR["half"])
        never = self.caught in ("unreadable", "missing") and not self.public
        return self.base + (NEVER if never else FAR[self.caught])

    @property
    def limit(self) -> float:
        """The released share from which on the cell is a misfit: far, and beyond the noise."""
        return max(self.far, self.base + self.noise)

    @property
    def known(self) -> bool:
        """Whether a misfit would show: the noise is smaller than its excess."""
        return self.released >= self.limit or self.limit == self.far


@dataclass(frozen=True)
class ColumnFit:
    """How a domain fits a column: its catch-all cells, empty if no measurement covers it.

    `bought` says whether its edges were bought, by this release or by one before.
    """

    attribute: Attribute
    shares: tuple[CatchAllShare, ...] = ()
    bought: bool = False

    @property
    def misfit(self) -> CatchAllShare | None:
        """The catch-all cell that holds far more than in the public table; None if none does."""
        far = [one for one in self.shares if one.released >= one.limit]
        return max(far, key=lambda one: one.released, default=None)

    @property
    def unknown(self) -> str:
        """The key of the sentence that says why the fit is not known; empty if it is."""
        if not self.shares:
            return "fit_unmeasured"
        known = self.misfit is not None or all(one.known for one in self.shares)
        return "" if known else "fit_noisy"

    @property
    def remedy(self) -> str:
        """The key of the sentence that says how to mend the misfit; empty without one."""
        if self.misfit is None:
            return ""
        column = self.attribute
        column = column.child if isinstance(column, ChildAttribute) else column
        if self.misfit.caught in ("bound", "half"):
            if self.bought:
                return "buy_edges"
            dates = column.dated and self.misfit.public is not None
            return "shift" if dates else "widen"
        if self.misfit.caught == "other":
            return "list_values"
        if self.misfit.caught == "unreadable":
            return "state_writing" if column.binned else "list_values"
        if column.unreadable == "missing":
            return "state_format" if column.binned else "list_or_empty"
        return "check_column"

    def sentence(self, cell: CatchAllShare) -> str:
        """Return which share of the records the cell holds, and which of the public table."""
        return said(
            cell.caught if cell.public is None else f"{cell.caught}_beside",
            column=self.attribute.column,
            share=min(max(cell.released, 0.0), 1.0),
            label=cell.label,
            public=cell.public,
        )


def column_fits(
    transcript: Transcript, domain: Domain, public: MarginalSource | None
) -> list[ColumnFit]:
    """Compare the catch-all cells of all columns that have any with the encoded public tables.

    Fits are in domain order. Two children have the same columns: the first measured one says how
    the domain fits both.
    """
    columns: dict[str, list[Attribute]] = {}
    for attribute in domain.attributes:
        if attribute.catch_all_cells:
            columns.setdefault(attribute.column, []).append(attribute)
    judged = max(1, sum(len(one.catch_all_cells) for one, *_ in columns.values()))
    deviations = NormalDist().inv_cdf(1.0 - FALSE_ALARM_LEVEL / judged)
    fits = []
    for several in columns.values():
        each = ((one, released_marginal(transcript, (one.name,))) for one in several)
        found = next(((one, marginal) for one, marginal in each if marginal is not None), None)
        if found is None:
            fits.append(ColumnFit(several[0]))
            continue
        attribute, released = found
        records = max(1.0, _there(attribute, released.counts, transcript.records))
        # The number of records that have the column is a noisy count, too.
        sigma = released.sigma * (1.0 if attribute.absent_code is None else 2**0.5)
        shown = _public_shares(domain, public, attribute)
        ours = (released.counts / records).tolist()
        shares = tuple(
            CatchAllShare(
                caught,
                attribute.labels[code],
                ours[code],
                None if shown is None else shown[code],
                deviations * sigma * _summed(attribute, code) ** 0.5 / records,
                None if shown is None else _usual(attribute, code, ours, shown),
            )
            for caught, code in attribute.catch_all_cells
        )
        fits.append(ColumnFit(attribute, shares, domain.asked_of(attribute.name) is not None))
    return fits


def misfit_columns(fits: Iterable[ColumnFit]) -> tuple[str, ...]:
    """Return the columns that the domain does not fit, in its order."""
    return tuple(one.attribute.column for one in fits if one.misfit is not None)


def _there(attribute: Attribute, counts: npt.NDArray[Any], records: float) -> float:
    """Return how many of the records have the column."""
    absent = attribute.absent_code
    return records if absent is None else records - float(counts[absent])


def _summed(attribute: Attribute, code: int) -> int:
    """Return how many cells are compared for one; see `_usual`."""
    return len(attribute.missing_codes) if code in attribute.missing_codes else 1


def _usual(
    attribute: Attribute, code: int, released: Sequence[float], public: Sequence[float]
) -> float:
    """Return the public share that a cell may have.

    A public table may have missing values in place of unreadable ones, as an earlier release does,
    or the other way round. So a cell may have what its private sibling leaves of both public ones.
    """
    others = [one for one in attribute.missing_codes if one != code]
    if len(others) == len(attribute.missing_codes):
        return public[code]
    return max(public[code], public[code] + sum(public[one] - released[one] for one in others))


def _public_shares(
    domain: Domain, public: MarginalSource | None, attribute: Attribute
) -> Sequence[float] | None:
    """Return the public share of each cell; None if no public table has the column."""
    name = attribute.name
    if public is None or not PublicTables.of(domain, public).answering((name,)):
        return None
    counts = public.marginal((name,))
    records = max(1.0, _there(attribute, counts, float(counts.sum())))
    return [float(count) / records for count in counts]


def misfit_sentence(fits: Iterable[ColumnFit]) -> str:
    """Return the column that the domain fits worst, how many more it does not fit, and the cell."""
    found = [(one, one.misfit) for one in fits if one.misfit is not None]
    if not found:
        return ""
    fit, worst = max(found, key=lambda one: one[1].excess)
    more = len(found) - 1
    key = ("misfit", "misfit_and_one")[more] if more < 2 else "misfits"
    return f"{said(key, column=fit.attribute.column, more=more)} {fit.sentence(worst)}"


def remedy_sentence(fits: Iterable[ColumnFit]) -> str:
    """Return how to mend the columns that the domain does not fit; empty if there are none."""
    names = _by(fits, "remedy")
    found = [said(key, columns=", ".join(columns)) for key, columns in names.items()]
    return " ".join((said("lost_values"), said("mend"), *found)) if found else ""


def unknown_sentences(fits: Iterable[ColumnFit]) -> list[str]:
    """Return the columns whose fit is not known, and why."""
    return [said(key, columns=listed(columns)) for key, columns in _by(fits, "unknown").items()]


def _by(fits: Iterable[ColumnFit], key: Literal["remedy", "unknown"]) -> dict[str, list[str]]:
    """Return the columns by the key of a sentence; those without one are left out."""
    found = [(getattr(one, key), one.attribute.column) for one in fits]
    return {one: [name for own, name in found if own == one] for one, _ in found if one}


def copied_columns(domain: Domain) -> list[str]:
    """Return the columns that the domain looks up in a table of values, not in the private one."""
    return [one.name for one in domain.derived if isinstance(one.expression, Lookup)]

"""Workload error (Definition 2.8 of the JAM paper): the distance of answers from the truth.

For a workload ``W`` of weighted marginals, a private table ``D`` of n records and a table ``S``::

    error(S) = sum_q w_q ||q(D) - q(S) n / |S| ||_1 / n  /  sum_q w_q

Next to it are the mean errors of pairs of attributes at about eight groups of values each, and of
associations of ordered attributes; see `jam_dagster.evaluation.coarse_pairs`. The tables are the
synthetic one, the public one, and the free baseline: rows of the public prior, which cost nothing.

A value that cannot be read counts as a missing one, which a released row has in its place.

Errors are fractions of the records: 0 is a perfect answer, 2 the worst possible one. Computing
them reads the private table, so there are three modes: ``"private"`` releases the means with
Gaussian noise and charges for them, ``"exact"`` computes everything and is restricted to readers
who may see statistics of the private table, ``"off"`` computes nothing.

If n is private, mode ``"private"`` scales S to the measured n' and divides by it. The worst error
is then ``(n + n') / n'``: far above 2 if n' is far too small.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from jam_dagster.common.choices import EvaluationMode
from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.evaluation.coarse_pairs import CoarsePairs
from jam_dagster.evaluation.independent_table import IndependentTable
from jam_dagster.evaluation.sample_equivalent import SampleErrors
from jam_dagster.evaluation.score_histograms import CELLS, histograms, scored
from jam_dagster.evaluation.utility import Regression, TargetUtility
from jam_dagster.tables.codes.marginals import marginal_blocks
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.codes.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.privacy.draws import Draws
    from jam_dagster.privacy.noise.calls import NoiseCall
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.domain import Clique, Domain

MEANS_STEP = "evaluation/means"

CONFIDENCE = 0.95
"""The confidence of the intervals that noise leaves of errors."""

MOST = 2.0
"""The largest error: the distance of two tables that share no cell."""

LINES = ("pairs", "association", "purpose", "correlation")
"""The errors of a table but that of the workload; see `TableErrors`."""

MEANS = ("mean", *LINES[:3])
"""The means of a table that are released with noise, in the order of the draw."""

DRAWN = ("synthetic", "public", "prior")
"""The tables whose means are drawn, in the order of the draw."""

_Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)


@dataclass(frozen=True)
class TableErrors:
    """The errors of one table.

    Parameters
    ----------
    mean
        Weighted mean over the workload, a fraction of the records.
    maximum
        The worst marginal's error; None if only means were released.
    per_marginal
        The error of every marginal of the workload; None if only means were released.
    pairs, association, correlation
        As in `PairErrors`; None if the domain has no such pair, and `correlation` if only means
        were released.
    purpose
        The mean error of the pairs of the purpose; None without one.
    scores
        For each target of the purpose the noisy histogram of private records' scores by a
        classifier that learnt from this table, as fractions of them; see `score_histograms`.
    """

    mean: float
    maximum: float | None = None
    per_marginal: Mapping[Clique, float] | None = None
    pairs: float | None = None
    association: float | None = None
    purpose: float | None = None
    correlation: float | None = None
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def possible(self) -> float:
        """The possible mean, of 0 to 2, that is nearest to a noisy one."""
        return min(max(self.mean, 0.0), MOST)

    def to_dict(self) -> dict[str, Any]:
        """Return what is known, without the single marginals."""
        known = {"mean": self.mean, "max": self.maximum}
        more = {name: getattr(self, name) for name in LINES}
        more["scores"] = dict(self.scores) or None
        return known | {name: value for name, value in more.items() if value is not None}


@dataclass(frozen=True)
class WorkloadErrors:
    """The workload errors of a release's synthetic table and of the tables to compare it with.

    Parameters
    ----------
    mode
        The evaluation mode.
    synthetic, public
        The errors of the synthetic table and of the public table; None in mode ``"off"``.
    prior
        The errors of the free baseline: rows of the public prior. None without a public table.
    uniform
        The error of a uniform table, in mode ``"exact"`` and where there is no public table.
    bought
        The error of the product of the counts that bought the domain, where `uniform` is.
    independent
        The error of the product of the private one-way marginals, with every attribute exact and
        no relation between them; only in mode ``"exact"``.
    sigma
        Standard deviation of the noise in each mean, a fraction of the records; 0 if exact.
    rho
        The charge for the means.
    call
        The charged draw, lost or not; None without a charge.
    sample_equivalent
        K, the size of a random sample of private records with the same expected error as the
        synthetic table; see `SampleErrors`. In mode ``"private"`` it follows from released results:
        the noisy mean, and the synthetic table in place of the private one. None if the mean is
        not known, or is smaller than its noise.
    equivalent_within
        The least and most that K is at the ends of the mean's interval. None if K is, and where
        the mean is exact.
    utility
        How well each target of the purpose is predicted by what is learned from each table; only
        in mode ``"exact"``.
    regressions
        The coefficients of each regression of the purpose; only in mode ``"exact"``.
    left_out
        Columns without which they were measured, since the domain does not fit them.
    """

    mode: EvaluationMode
    synthetic: TableErrors | None = None
    public: TableErrors | None = None
    prior: TableErrors | None = None
    independent: TableErrors | None = None
    sigma: float = 0.0
    rho: float = 0.0
    call: NoiseCall | None = None
    sample_equivalent: int | None = None
    equivalent_within: tuple[int, int] | None = None
    utility: tuple[TargetUtility, ...] = ()
    regressions: tuple[Regression, ...] = ()
    uniform: TableErrors | None = None
    bought: TableErrors | None = None
    left_out: tuple[str, ...] = ()

    @classmethod
    def unknown(cls, draws: Draws | None) -> WorkloadErrors:
        """Return a result without errors, for a lost draw with its charge."""
        calls = () if draws is None else draws.calls
        return cls("off", rho=sum(call.rho for call in calls), call=calls[-1] if calls else None)

    @property
    def margin(self) -> float:
        """Half the width of the interval of each mean, a fraction of the records; 0 if exact."""
        return _Z * self.sigma

    @property
    def restricted(self) -> bool:
        """Whether these are exact statistics of private data, which must not be released."""
        return self.mode == "exact"

    def to_dict(self) -> dict[str, dict[str, Any] | None]:
        """Return the errors of every table, None for a table that was not evaluated."""
        tables = {
            "synthetic": self.synthetic,
            "public": self.public,
            "independent": self.independent,
        }
        told = {name: None if one is None else one.to_dict() for name, one in tables.items()}
        more = {"prior": self.prior, "uniform": self.uniform, "bought": self.bought}
        return told | {name: one.to_dict() for name, one in more.items() if one is not None}

    def to_frame(self) -> pd.DataFrame:
        """Return one row a marginal, the worst of the synthetic table first.

        Returns
        -------
        DataFrame
            Columns ``marginal`` (names joined by " x "), ``synthetic``, ``public`` and
            ``independent``: fractions of the records. Empty if only means were released.
        """
        import pandas as pd

        columns = {
            name: error.per_marginal
            for name, error in (
                ("synthetic", self.synthetic),
                ("public", self.public),
                ("independent", self.independent),
            )
            if error is not None and error.per_marginal is not None
        }
        if not columns:
            return pd.DataFrame(columns=["marginal", "synthetic", "public", "independent"])
        cliques = list(next(iter(columns.values())))
        frame = pd.DataFrame(
            {
                "marginal": [" x ".join(clique) for clique in cliques],
                **{name: [errors[c] for c in cliques] for name, errors in columns.items()},
            }
        )
        return frame.sort_values("synthetic", ascending=False, kind="stable", ignore_index=True)


def workload_error(
    private: MarginalSource,
    synthetic: MarginalSource,
    public: MarginalSource | None,
    workload: Workload,
    *,
    mode: EvaluationMode,
    draws: Draws | None = None,
    records: int | None = None,
    encode: Callable[[], MarginalSource] | None = None,
    run: str = "",
    prior: Callable[[], MarginalSource] | None = None,
    left_out: Sequence[str] = (),
    targets: Sequence[str] = (),
    bought: Mapping[str, Sequence[float]] | None = None,
) -> WorkloadErrors:
    """Measure the workload error of a synthetic and a public table, and of the free baseline.

    Parameters
    ----------
    private
        The private table, over the same domain as the others.
    synthetic, public
        The tables to judge; their counts are scaled to the number of private records. None: there
        is no public one.
    workload
        The marginals and their weights.
    mode
        ``"private"`` releases the means with noise: replacing one of n people moves each by at most
        2 / n, so k of them by at most 2 sqrt(k) / n in L2. ``"exact"`` computes means, maxima,
        every marginal and an independent baseline; the result is restricted. ``"off"`` reads
        nothing.
    draws
        The draws that pay for mode ``"private"``: the evaluation's own account, which is spent as
        a whole.
    records
        The release's measured n; needed in mode ``"private"`` if the number of private records is
        not public. The error is then a fraction of this n. In mode ``"exact"`` it is used for an
        empty private table.
    encode
        In mode ``"private"``, returns the private table where no value of it was looked at yet, of
        which `private` then knows the domain and the number of records. It is called after the
        charge: whether it fails depends on values.
    run
        The digest of the run that made the synthetic table. Means that were measured on another
        one are refused as a lost draw.
    targets
        In mode ``"private"``, the columns for which scores of classifiers are measured. The
        private table then holds its rows.
    bought
        Weights of the cells of bought attributes, by name; for mode ``"exact"``.
    prior
        Makes the free baseline from public data; called if its error is measured. None: there is
        none.
    left_out
        Columns whose marginals and pairs are left out, by what was released; see
        `judged_workload`. If nothing is left, mode ``"private"`` draws nothing.

    Returns
    -------
    WorkloadErrors
        Noisy means are not clipped; with little budget they can be negative.

    Raises
    ------
    SpecificationError
        If the mode is unknown, or is ``"private"`` without draws, or if the number of records is
        private and was not measured.
    DomainError
        If the tables are not over one domain.
    InputError
        If a table has no records, or the workload names an attribute that the domain lacks. An
        empty private table is allowed if the number of records is private.
    BudgetExceededError, LostDrawError
        As for `Draws.means`.
    """
    if mode not in get_args(EvaluationMode):
        raise SpecificationError(
            f"evaluation mode must be one of {', '.join(get_args(EvaluationMode))}; got {mode!r}."
        )
    if mode == "off":
        return WorkloadErrors(mode)
    judged = {"synthetic": synthetic}
    if public is not None:
        judged["public"] = public
    _check_tables(private, judged, workload)
    measured = judged_workload(workload, private.domain, left_out)
    targets = [one for one in targets if private.domain.attribute(one).column not in left_out]
    if measured is None and mode == "private":
        return WorkloadErrors("off", left_out=tuple(left_out))
    if measured is None:
        # Exact errors cost nothing, so all columns are measured.
        measured, left_out = workload, ()
    pairs = CoarsePairs.of(private.domain, synthetic, left_out)
    if mode == "exact":
        errors = _exact_errors(private, judged, measured, pairs, records, prior, bought)
        return replace(errors, left_out=tuple(left_out))
    if draws is None:
        raise SpecificationError(
            "evaluation in mode 'private' needs a charge: give it the draws of the evaluation's "
            "account, or choose mode 'off'."
        )
    subject = means_subject(run, left_out)
    errors = _noisy_errors(
        private, judged, measured, pairs, draws, records, encode, subject, prior, targets
    )
    return replace(errors, left_out=tuple(left_out))


def judged_workload(
    workload: Workload, domain: Domain, left_out: Collection[str]
) -> Workload | None:
    """Return a workload without the marginals that hold some columns.

    If each does, these columns are taken from the marginals; None if nothing is left.
    """
    names = {one.name for one in domain.attributes if one.column in left_out}
    whole: dict[Clique, float] = {}
    parts: dict[Clique, float] = {}
    for clique, weight in zip(workload.cliques, workload.weights, strict=True):
        rest = tuple(name for name in clique if name not in names)
        if rest == clique:
            whole[clique] = weight
        elif rest:
            parts[rest] = parts.get(rest, 0.0) + weight
    kept = whole or parts
    if not kept:
        return None
    purpose = tuple(pair for pair in workload.purpose if names.isdisjoint(pair))
    return Workload(tuple(kept), tuple(kept.values()), workload.attributes, purpose)


def means_subject(run: str, left_out: Collection[str]) -> str:
    """Return the subject of the draw: the digest of the run, and the columns left out if any."""
    return f"{run} without {json.dumps([*left_out])}" if left_out else run


def _exact_errors(
    private: MarginalSource,
    judged: Mapping[str, MarginalSource],
    workload: Workload,
    pairs: CoarsePairs,
    records: int | None,
    prior: Callable[[], MarginalSource] | None,
    bought: Mapping[str, Sequence[float]] | None,
) -> WorkloadErrors:
    if records is None:
        _check_records("private", private)
    baselines: dict[str, MarginalSource | IndependentTable] = {
        **judged,
        "independent": IndependentTable.of(private),
    }
    if prior is not None:
        baselines["prior"] = prior()
    if "public" not in judged:
        baselines["uniform"] = IndependentTable.uniform(private.domain, 1)
        if bought:
            baselines["bought"] = IndependentTable.uniform(private.domain, 1, bought)
    records = private.records or records
    errors = np.empty((len(baselines), len(workload.cliques)))
    blocks = _judged(errors, private, tuple(baselines.values()), workload.cliques, records)
    sampled = SampleErrors(private, workload, blocks=blocks)
    tables = tuple(baselines.values())
    apart = pairs.apart(private, tables, records, raked=True)
    served = _purpose_errors(private, tables, workload, records)
    gathered = {
        name: replace(_table_error(row, workload), **found._asdict(), purpose=purpose)
        for name, row, found, purpose in zip(baselines, errors, apart, served, strict=True)
    }
    return WorkloadErrors(
        "exact",
        gathered["synthetic"],
        gathered.get("public"),
        gathered.get("prior"),
        gathered["independent"],
        uniform=gathered.get("uniform"),
        bought=gathered.get("bought"),
        sample_equivalent=sampled.equivalent(gathered["synthetic"].mean),
    )


def _noisy_errors(
    private: MarginalSource,
    judged: Mapping[str, MarginalSource],
    workload: Workload,
    pairs: CoarsePairs,
    draws: Draws,
    records: int | None,
    encode: Callable[[], MarginalSource] | None,
    subject: str,
    prior: Callable[[], MarginalSource] | None,
    targets: Sequence[str],
) -> WorkloadErrors:
    if draws.neighbours.records_public:
        _check_records("private", private)
        records = private.records
    elif records is None:
        raise SpecificationError(
            "the number of private records is not public here: give the measured number from the "
            "release's transcript."
        )
    errors_of = partial(_means, judged, workload, pairs, records, prior, targets)
    rho, names = draws.total, [*judged, *(() if prior is None else ("prior",))]
    # The prior's rows are rows if the synthetic ones are.
    learnt = scored({**judged, **dict.fromkeys(names[len(judged) :], judged["synthetic"])}, targets)
    lines = [MEANS[0], *(name for name in MEANS[1:3] if pairs.measures(name))]
    lines += MEANS[3:] if workload.purpose else ()
    size = len(names) * len(lines)
    number = len(learnt) * len(targets)
    sensitivity = draws.neighbours.evaluation_l2(records, size, number)
    if prior is not None and encode is not None and draws.can_make(MEANS_STEP):
        # Public data that give no rows cost nothing.
        prior()
    # A table in memory is evaluated before the charge, and one that is still to be read after it.
    exact = errors_of(private) if encode is None else np.empty(0)

    def compute() -> np.ndarray:
        return exact if encode is None else errors_of(encode())

    means, _ = draws.values(
        MEANS_STEP,
        compute,
        size=size + CELLS * number,
        rho=rho,
        sensitivity=sensitivity,
        subject=subject,
    )
    rows = means[:size].reshape(len(names), -1).tolist()
    cells = means[size:].reshape(len(learnt), len(targets), CELLS) if number else ()
    scores = {
        name: {target: tuple(one.tolist()) for target, one in zip(targets, found, strict=True)}
        for name, found in zip(learnt, cells, strict=True)
    }
    tables = {
        name: TableErrors(**dict(zip(lines, row, strict=True)), scores=scores.get(name, {}))
        for name, row in zip(names, rows, strict=True)
    }
    return noisy_errors(tables, draws.calls[-1], judged["synthetic"], workload, records)


def noisy_errors(
    tables: Mapping[str, TableErrors],
    call: NoiseCall,
    synthetic: MarginalSource,
    workload: Workload,
    records: int,
) -> WorkloadErrors:
    """Return what follows from a draw of noisy means, without private data.

    `tables` has the means of each table of `DRAWN` that there is. The call was not lost. The number
    of private records is measured where it is private.
    """
    ours = tables["synthetic"]
    sigma = call.scale or 0.0
    equivalent = within = None
    margin = _Z * sigma
    if ours.mean > margin:
        # The synthetic table replaces the private one.
        sampled = SampleErrors(synthetic, workload, records=records)
        equivalent = sampled.equivalent(ours.mean)
        within = (
            sampled.equivalent(ours.mean + margin, most=equivalent),
            sampled.equivalent(ours.mean - margin, least=equivalent),
        )
    return WorkloadErrors(
        "private",
        ours,
        tables.get("public"),
        tables.get("prior"),
        sigma=sigma,
        rho=call.rho,
        call=call,
        sample_equivalent=equivalent,
        equivalent_within=within,
    )


def _means(
    judged: Mapping[str, MarginalSource],
    workload: Workload,
    pairs: CoarsePairs,
    records: int,
    prior: Callable[[], MarginalSource] | None,
    targets: Sequence[str],
    private: MarginalSource,
) -> np.ndarray:
    """Return the means of all tables, each in the order of `MEANS`, and then the histograms."""
    named = {**judged, **({} if prior is None else {"prior": prior()})}
    tables = list(named.values())
    means = (
        [_weighted_mean(row, workload), apart.pairs, apart.association, purpose]
        for row, apart, purpose in zip(
            _marginal_errors(private, tables, workload.cliques, records),
            pairs.apart(private, tables, records, raked=True),
            _purpose_errors(private, tables, workload, records),
            strict=True,
        )
    )
    found = np.array([one for table in means for one in table if one is not None])
    rows = {name: one for name, one in named.items() if isinstance(one, EncodedTable)}
    learnt = {name: rows[name] for name in scored(rows, targets)}
    if not learnt or not isinstance(private, EncodedTable):
        return found
    return np.concatenate([found, histograms(private, learnt, targets) / records])


def _purpose_errors(
    private: MarginalSource,
    tables: Sequence[MarginalSource | IndependentTable],
    workload: Workload,
    records: int | None,
) -> list[float | None]:
    """Return the mean error of the purpose's pairs in each table; None without a purpose."""
    if not workload.purpose:
        return [None] * len(tables)
    errors = _marginal_errors(private, tables, workload.purpose, records)
    return [float(row.mean()) for row in errors]


def table_errors(
    private: MarginalSource,
    tables: Sequence[MarginalSource | IndependentTable],
    workload: Workload,
) -> list[TableErrors]:
    """Return the exact errors of several tables or models; restricted.

    The private counts are computed once for all of them.
    """
    named = {f"{number}.": table for number, table in enumerate(tables, start=1)}
    _check_tables(private, named, workload)
    _check_records("private", private)
    errors = _marginal_errors(private, tables, workload.cliques)
    return [_table_error(row, workload) for row in errors]


def _marginal_errors(
    private: MarginalSource,
    tables: Sequence[MarginalSource | IndependentTable],
    cliques: Sequence[Clique],
    records: int | None = None,
) -> np.ndarray:
    """Return the errors of several tables, shape ``(tables, cliques)``, a block at a time."""
    errors = np.empty((len(tables), len(cliques)))
    for _ in _judged(errors, private, tables, cliques, records):
        pass
    return errors


def _judged(
    errors: np.ndarray,
    private: MarginalSource,
    tables: Sequence[MarginalSource | IndependentTable],
    cliques: Sequence[Clique],
    records: int | None,
) -> Iterator[Mapping[Clique, np.ndarray]]:
    """Write the errors of several tables, and yield the private counts behind them."""
    columns = {clique: column for column, clique in enumerate(cliques)}
    n = private.records if records is None else records
    for truth in marginal_blocks(private, cliques):
        for row, table in enumerate(tables):
            answers = table.marginals(truth)
            for clique, counts in truth.items():
                # Only an empty product has no records; its answers are zero.
                answer = answers[clique] * (n / max(1, table.records))
                apart = private.domain.as_released(clique, counts - answer)
                errors[row, columns[clique]] = np.abs(apart).sum() / n
            # Freed before the next table's answers are counted.
            del answers
        yield truth


def _weighted_mean(errors: np.ndarray, workload: Workload) -> float:
    """Return the mean of the errors by the workload's weights."""
    return float(np.average(errors, weights=workload.weights))


def _table_error(errors: np.ndarray, workload: Workload) -> TableErrors:
    """Gather one table's errors."""
    return TableErrors(
        mean=_weighted_mean(errors, workload),
        maximum=float(errors.max()),
        per_marginal=dict(zip(workload.cliques, errors.tolist(), strict=True)),
    )


def _check_tables(
    private: MarginalSource,
    tables: Mapping[str, MarginalSource | IndependentTable],
    workload: Workload,
) -> None:
    """Raise unless the tables are filled and are, like the workload, over the private domain."""
    domain = private.domain
    for name, table in tables.items():
        if table.domain.digest != domain.digest:
            raise DomainError(
                f"the {name} table is over another domain than the private one: encode both with "
                "the same domain file."
            )
        _check_records(name, table)
    for clique in workload.cliques:
        domain.canonical(clique)


def _check_records(name: str, table: MarginalSource | IndependentTable) -> None:
    if table.records <= 0:
        raise InputError(f"the {name} table has no records: give a table with at least one record.")


def uniform_distance(
    synthetic: MarginalSource,
    workload: Workload,
    singles: Mapping[str, Sequence[float]] | None = None,
) -> float:
    """Return the workload distance of a uniform table from a synthetic one.

    `singles` are weights of the cells of attributes in which it is not uniform, by name.
    """
    uniform = IndependentTable.uniform(synthetic.domain, synthetic.records, singles)
    (errors,) = table_errors(synthetic, [uniform], workload)
    return errors.mean

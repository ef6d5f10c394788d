"""The tilt: the distribution closest to the public prior that measurements deserve.

The estimate p minimizes, over all distributions,

    KL(p || p0) + sum_i ||M_i p - y_i||_2^2 / (2 s_i),    s_i = lambda_i sigma_i^2 / n^2

or `FOLLOWED` sigma_i / n, if that is more, with p0 the public prior and y_i the measured marginal
M_i as fractions. Without measurements it is p0; the stronger the measurements, the more it follows
them. It is p0 times the exponential of a table of potentials theta for each measured clique, which
maximize the concave dual

    theta . y - log Z(theta) - sum_i s_i ||theta_i||_2^2 / 2.

The same potentials tilt both parts of p0: the network, as a junction tree, and the weights of the
public records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from jam_dagster.models.graphical.answers import Calibrated
from jam_dagster.models.graphical.belief_propagation import Beliefs
from jam_dagster.models.graphical.dense import ascending
from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.graphical.junction_tree import JunctionTree, bits, mask_of
from jam_dagster.models.graphical.kernels import Table, one_thread
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.graphical.routes import NearRoutes
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL, Measurement
from jam_dagster.models.tilted.descent import minimize
from jam_dagster.models.tilted.model import SHARED_CELLS, TiltedModel
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.models.tilted.shared_margins import SharedMargins
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.support import RecordCells
from jam_dagster.tables import Clique

LARGEST_POTENTIAL = 60.0
"""The largest potential of a cell, less the mean of its clique: more says nothing. In the model it
is no further below the mean either, where the probability is 0 whatever it is."""

FOLLOWED = 0.05
"""The least s, in units of sigma / n. Little is gained by following a measurement more
closely, and potentials grow without end."""

LEAST_CURVATURE = 1e-8
"""The least curvature by which a fit sets its units."""

AT_BOUND = 1e-6
"""A potential that is as near to its bound is at it."""

LARGEST_CHANGE = 20.0
"""Most by which a potential changes at a time."""

LARGEST_CHANGES = 300.0
"""Most by which the potentials of all cliques together change at a time: the exponential of more
has no float."""

LEVELS = 100
"""Most steps to the constant by which the marginal sums to one."""

CELL_STEPS = 6
"""Steps to each cell's value for a given constant."""

CLOSE = 1e-10
"""How far from one the sum of the marginal may end."""

LARGEST_ANSWER = 1e9
"""The largest fraction that a measurement may say: noise may say anything."""

STRENGTHS = np.logspace(0, 9, 46)
"""Possible strengths of the model in a measured marginal, in records; see `strengths_of`."""

FEW = 100_000
"""Up to so many records the largest strength is as much; beyond, it is their number."""

EVIDENCE = 3.0
"""How much likelier, in nats, a strength below the largest must be for the model to be wrong."""

CAUTION = 2.0
"""How much likelier, in nats, the largest strength is also held to be, once it is wrong: mistakes
that a marginal of many cells lets through cost more than its gain."""

BINS = 4.0
"""The cells of a marginal count as so many sizes for each factor of e."""

MEMORY = 0.8
"""The weight of earlier strengths in the mean, for each that came after."""

TOGETHER = 2**15
"""Cells of answers that are mixed with those of the records at a time: they fit a cache."""

SETTLED = 1e-4
"""A fit ends when a step lowers the objective by no more than this, in nats a record."""

FINE = 0.05
"""The fit that is released ends when a step gains no more nats than this, for all the records
together that the model stands for. In between a coarser one shows which to measure next."""


@dataclass
class Measured:
    """All measurements of a clique, attributes in domain order.

    `answer` is their mean by precision, as fractions; `precision` is ``1 / sigma^2`` of it, in
    counts. `strength` is the smallest lambda of all.
    """

    answer: Table
    precision: float
    strength: float

    def ridge(self, total: float) -> float:
        """Return s, for so many records."""
        sigma = math.sqrt(1.0 / self.precision) / total
        return sigma * max(self.strength * sigma, FOLLOWED)

    def combine(self, other: Measured) -> None:
        """Take another one: the mean by precision, and the smaller strength."""
        whole = self.precision + other.precision
        self.answer = (self.answer * self.precision + other.answer * other.precision) / whole
        self.precision = whole
        self.strength = min(self.strength, other.strength)


def strengths_of(total: float) -> Table:
    """Return what the strength of a model of so many records may be.

    With the largest the model is right: as close to the private table as a sample of its size.
    """
    most = int(np.searchsorted(STRENGTHS, 0.99 * max(total, FEW)))
    strengths: Table = STRENGTHS[: most + 1]
    return strengths


def strength_of(
    measured: npt.NDArray[np.float64],
    model: npt.NDArray[np.float64],
    sigma: float,
    total: float,
) -> float:
    """Return lambda: how many records of its own the model's answer is worth.

    If lambda is the strength, what is measured less what the model says is normal with variance
    ``sigma^2 + n m / lambda`` in a cell of m records. The largest strength is taken unless another
    is likelier by `EVIDENCE`. Else it is the one with the least expected L1 error of the answer
    ``m + f (y - m)``, ``f = m / (m + lambda sigma^2 / n)``, over the likelihood of all of them: the
    likeliest may be so by chance in a few cells, and lets noise through in thousands.
    """
    squares = np.square(measured - model).ravel()
    counts = np.maximum(model, 1e-9).ravel()
    strengths = strengths_of(total)
    likelihoods = np.empty(len(strengths))
    for number, strength in enumerate(strengths):
        variances = sigma**2 + total * counts / strength
        likelihoods[number] = -0.5 * float((np.log(variances) + squares / variances).sum())
    likelihoods[-1] += EVIDENCE
    if likelihoods.argmax() == len(strengths) - 1:
        return float(strengths[-1])
    likelihoods[-1] += CAUTION
    chances = np.exp(likelihoods - likelihoods.max())
    risks = _expected_errors(counts, sigma, total) @ (chances / chances.sum())
    # The largest of equal ones is taken.
    return float(strengths[::-1][int(risks[::-1].argmin())])


def _expected_errors(counts: npt.NDArray[np.float64], sigma: float, total: float) -> Table:
    """Return the expected L1 error of the answer with one strength where another is right.

    In units of `MEAN_ABSOLUTE_NORMAL` counts, shape ``(taken, right)``.
    """
    bins = np.rint(BINS * np.log(counts)).astype(np.int64)
    bins -= bins.min()
    times = np.bincount(bins)
    held = times > 0
    times = times[held]
    sizes = np.bincount(bins, weights=counts)[held] / times
    strengths = strengths_of(total)[:, None]
    let_through = sizes / (sizes + strengths * sigma**2 / total)
    wrong = total * sizes / strengths
    variances = np.square(1.0 - let_through)[:, None] * wrong
    errors: Table = np.sqrt(variances + np.square(let_through * sigma)[:, None]) @ times
    return errors


def _together(answers: Iterable[tuple[int, Table]]) -> Iterator[list[tuple[int, Table]]]:
    """Yield answers in parts, which end where they have `TOGETHER` cells."""
    some: list[tuple[int, Table]] = []
    cells = 0
    for mask, answer in answers:
        some.append((mask, answer))
        cells += answer.size
        if cells >= TOGETHER:
            yield some
            some, cells = [], 0
    if some:
        yield some


def _log_odds(share: float) -> float:
    return math.log(share / (1.0 - share)) if share > 0.0 else -math.inf


class TiltFit:
    """A prior, and the measurements that tilt it.

    `strength` is lambda of the last measurement; `learnt` says whether it moved the model by more
    than the noise that it let through.
    """

    def __init__(self, prior: PublicPrior, total: float, *, iterations: int) -> None:
        self.prior = prior
        self.total = float(total)
        self.strength = math.inf
        self.learnt = True
        self._iterations = iterations
        self._trusted = 0.99 * float(strengths_of(total)[-1])
        self.measured: dict[Clique, Measured] = {}
        # Cliques that a junction tree has to hold before any measurement.
        self._always = [
            self._mask(q) for q in (*prior.potentials, *prior.domain.impossible_masks())
        ]
        self._theta = np.empty(0)
        # The part of theta in the model: less a constant for each clique, and bounded.
        self._potentials = np.empty(0)
        self._beliefs: Beliefs | None = None
        self._calibrated = prior.model(total).network.calibrated
        self._near: NearRoutes | None = None
        # For the network and for the records: the logarithm of their sum after the tilt.
        self._log_network = 0.0
        self._log_records = 0.0
        # The public records in the measured cliques.
        self._cells: RecordCells | None = None
        self._start = np.exp(prior.log_weights)
        self._weights = self._start
        # The share of the records after the tilt; before it, the logarithm of their odds.
        self._share = prior.share
        self._odds = _log_odds(prior.share)
        self._strengths = (0.0, 0.0)
        # Whether the last fit was a fine one.
        self._fine = False

    @property
    def cells(self) -> int:
        """Cells of the junction tree."""
        return self._calibrated.tree.cells

    def _mask(self, clique: Clique) -> int:
        return mask_of(self.prior.network_domain.positions[name] for name in clique)

    def marginals(
        self, masks: Iterable[int], *, together: bool = False
    ) -> Iterator[tuple[int, Table]]:
        """Yield marginals by mask as fractions, attributes ascending, in an order of its own.

        Many of them take less time `together`, and differ by rounding: enough for scores.
        """
        calibrated = self._calibrated
        if together:
            if self._near is None or self._near.tree != calibrated.tree:
                self._near = NearRoutes(calibrated.tree)
            calibrated = Calibrated(calibrated.tree, calibrated.beliefs, self._near)
        wanted = calibrated.marginals(masks, held_cells=SHARED_CELLS, together=together)
        with one_thread():
            for some in _together(wanted):
                yield from self._mixed(some)
        calibrated.forget()

    def _mixed(self, answers: Sequence[tuple[int, Table]]) -> Iterable[tuple[int, Table]]:
        """Return answers of the network mixed with those of the records."""
        if self.prior.support is None or self._share == 0.0:
            return answers
        domain = self.prior.domain
        names = [tuple(domain.names[index] for index in bits(mask)) for mask, _ in answers]
        added = RecordCells(self.prior.support, names).added(self._weights)
        ends = np.cumsum([answer.size for _, answer in answers])
        recorded = zip(answers, np.split(added, ends[:-1]), strict=True)
        return [
            (mask, (1.0 - self._share) * answer + self._share * cells.reshape(answer.shape))
            for (mask, answer), cells in recorded
        ]

    def add(self, measurement: Measurement) -> Convergence:
        """Add a measurement with the strength that it shows the model to have, and refit."""
        mask = self._mask(measurement.clique)
        ((_, before),) = self.marginals([mask])
        answer = np.asarray(measurement.values, dtype=np.float64) / self.total
        answer = np.clip(answer, -LARGEST_ANSWER, LARGEST_ANSWER)
        sigma = measurement.sigma
        strength = strength_of(answer * self.total, before * self.total, sigma, self.total)
        self.strength = strength
        self._weigh_records(strength)
        made = Measured(answer, sigma**-2.0, strength)
        new = measurement.clique not in self.measured
        if new:
            self.measured[measurement.clique] = made
        else:
            self.measured[measurement.clique].combine(made)
        with one_thread():
            convergence = self._refit(measurement.clique, new)
        vars(self).pop("model", None)
        ((_, after),) = self.marginals([mask])
        ridge = strength * (sigma / self.total) ** 2
        let_through = float((before / (before + ridge)).sum()) * sigma / self.total
        moved = float(np.abs(after - before).sum())
        self.learnt = strength < self._trusted and moved > MEAN_ABSOLUTE_NORMAL * let_through
        return convergence

    def follow(self, clique: Clique, answer: Table, sigma: float) -> Convergence:
        """Take what a clique's marginal is expected to be, as fractions, and refit.

        Its noise was shrunk, so the model follows it as closely as any measurement with that noise,
        in counts.
        """
        made = Measured(answer, sigma**-2.0, 0.0)
        new = clique not in self.measured
        if new:
            self.measured[clique] = made
        else:
            self.measured[clique].combine(made)
        with one_thread():
            convergence = self._refit(clique, new)
        vars(self).pop("model", None)
        return convergence

    def _weigh_records(self, strength: float) -> None:
        """Set the share of the records by what their weights are worth, ``1 / sum w^2`` records.

        Their odds are at most those of the prior, less as the tilt makes fewer of them count; and
        at most those of so many records against the geometric mean of the strengths that
        measurements showed so far, recent ones first.
        """
        if strength < self._trusted:
            summed, times = self._strengths
            self._strengths = (MEMORY * summed + math.log(strength), MEMORY * times + 1.0)
        summed, times = self._strengths
        if times == 0.0 or self.prior.share == 0.0:
            return
        worth = -math.log(float(np.square(self._weights).sum()))
        whole = -math.log(float(np.square(self._start).sum()))
        odds = min(_log_odds(self.prior.share) + worth - whole, worth - summed / times)
        # The odds before the tilt that become these by the tilt so far.
        self._odds = odds + self._log_network - self._log_records

    def _refit(self, clique: Clique, new: bool) -> Convergence:
        """Fit the potentials after a measurement of a clique."""
        beliefs = self._on_tree(new)
        misfit = _Misfit(beliefs, self.measured.values(), self.total)
        tilt = _Tilt(self, beliefs)
        # The clique begins where it would end if the others stayed as they are.
        theta, expected = self._theta.copy(), tilt.marginals.copy()
        number = list(self.measured).index(clique)
        here = slice(beliefs.cells[number], beliefs.cells[number + 1])
        target, ridge = misfit.targets[here], float(misfit.ridges[here.start])
        with np.errstate(divide="ignore"):
            base = np.log(expected[here]) - self._potentials[here]
        expected[here] = closest_marginal(base, target, ridge)
        theta[here] = (target - expected[here]) / ridge
        taken = self._minimize(theta, expected, misfit, tilt, SETTLED)
        self._fine = False
        loss = 0.5 * float(np.square(tilt.marginals - misfit.targets).sum())
        return Convergence(taken, loss)

    def _minimize(
        self, theta: Table, expected: Table, misfit: _Misfit, tilt: _Tilt, tolerance: float
    ) -> int:
        """Fit the potentials from these, with such marginals; return the evaluations."""
        tilt.centre(theta, expected)
        # In these units the curvature is about one where the fit begins.
        units = np.sqrt(expected + misfit.ridges + LEAST_CURVATURE)

        def objective(point: Table) -> tuple[float, Table]:
            theta = point / units
            constants = misfit.constants(theta)
            log_sum, marginals = tilt.at(theta)
            value, gradient = misfit.of(theta + misfit.spread(constants))
            slope = marginals + gradient
            slope[tilt.outwards(theta, slope)] = 0.0
            return log_sum + float(constants.sum()) + value, slope / units

        def within(point: Table) -> Table:
            return tilt.bounded(point / units) * units

        point, taken = minimize(
            objective,
            within(theta * units),
            evaluations=self._iterations,
            tolerance=tolerance,
            within=within,
        )
        theta = point / units
        self._theta = theta + misfit.spread(misfit.constants(theta))
        self._potentials = tilt.potentials
        self._log_network, self._log_records = tilt.log_network, tilt.log_records
        self._weights, self._share = tilt.weights, tilt.share
        beliefs = tilt.beliefs
        self._calibrated = Calibrated(beliefs.tree, beliefs.beliefs)
        return taken

    def _refine(self) -> None:
        """Fit once more, as closely as the strength of the model is worth."""
        summed, times = self._strengths
        if self._fine or self._beliefs is None or times == 0.0:
            return
        self._fine = True
        tolerance = FINE * math.exp(-summed / times)
        if tolerance < SETTLED:
            misfit = _Misfit(self._beliefs, self.measured.values(), self.total)
            tilt = _Tilt(self, self._beliefs)
            with one_thread():
                self._minimize(self._theta, tilt.marginals.copy(), misfit, tilt, tolerance)
            vars(self).pop("model", None)

    def _on_tree(self, new: bool) -> Beliefs:
        """Return beliefs on a tree that holds every measured clique, those of the last fit."""
        if not new and self._beliefs is not None:
            return self._beliefs
        factors, domain = [self._mask(q) for q in self.measured], self.prior.network_domain
        tree = JunctionTree.build(domain.shape, [*self._always, *factors])
        old = self._calibrated
        kept = dict(zip(old.tree.masks, old.beliefs, strict=True))
        tables = [kept[mask] if mask in kept else old.marginal(mask) for mask in tree.masks]
        old.forget()
        self._beliefs = beliefs = Beliefs(tree, tables, factors)
        added = np.zeros(beliefs.cells[-1] - self._theta.size)
        self._theta = np.concatenate([self._theta, added])
        self._potentials = np.concatenate([self._potentials, added])
        if self.prior.support is not None:
            names = [tuple(domain.names[index] for index in axes) for axes in beliefs.axes]
            self._cells = RecordCells(self.prior.support, names)
        return beliefs

    @cached_property
    def model(self) -> TiltedModel:
        """The model of all measurements so far."""
        domain = self.prior.network_domain
        potentials = dict(self.prior.potentials)
        cliques = []
        if self._beliefs is not None:
            for number, axes in enumerate(self._beliefs.axes):
                clique = tuple(domain.names[index] for index in sorted(axes))
                tilt = ascending(self._beliefs.factor(self._potentials, number).table, axes)
                potentials[clique] = potentials[clique] + tilt if clique in potentials else tilt
                cliques.append(clique)
        network = FittedModel.with_beliefs(domain, self.total, potentials, self._calibrated)
        if self.prior.support is None:
            return TiltedModel(network, None, 0.0, tuple(cliques), self.prior.populations)
        logs = self.prior.log_weights
        if self._cells is not None:
            logs = logs + self._cells.looked_up(self._potentials)
        before = WeightedTable(self.prior.support, self.total, self.prior.log_weights)
        rows = replace(before, log_weights=logs)
        of_prior = self.prior.populations, before
        return TiltedModel(network, rows, self._share, tuple(cliques), *of_prior)

    @property
    def released(self) -> TiltedModel:
        """The model of a fine fit, with beliefs propagated from potentials alone, as by `load`."""
        self._refine()
        return replace(self.model, network=self.model.network.recalibrated())


class _Misfit:
    """The part of the dual that measurements make: the sum of ``s ||theta||^2 / 2 - theta . y``.

    `targets` and `ridges` are y and s of every cell of all measured cliques, one after another.
    """

    def __init__(self, beliefs: Beliefs, measured: Iterable[Measured], total: float) -> None:
        self._starts, self._cells = beliefs.cells[:-1], np.diff(beliefs.cells)
        self.targets = np.empty(beliefs.cells[-1])
        self.ridges = np.empty(beliefs.cells[-1])
        for number, one in enumerate(measured):
            target = beliefs.factor(self.targets, number)
            ascending(target.table, target.axes)[...] = one.answer
            beliefs.factor(self.ridges, number).table[...] = one.ridge(total)
        self._margins = SharedMargins(beliefs, self.ridges)

    def constants(self, theta: Table) -> Table:
        """Return the best constant to add to each clique's potentials: none changes the model.

        Without it the fit is badly conditioned. All cells of a marginal that is measured too large
        by noise, which ends below zero in others, have large potentials in common.
        """
        short = np.add.reduceat(self.targets - self.ridges * theta, self._starts) - 1.0
        constants: Table = short / (self.ridges[self._starts] * self._cells)
        return constants

    def spread(self, constants: Table) -> Table:
        """Return each clique's constant for all of its cells."""
        return np.repeat(constants, self._cells)

    def of(self, theta: Table) -> tuple[float, Table]:
        """Return the value and its gradient, after the best exchange of what cliques share."""
        gradient = self.ridges * theta - self.targets
        # Squares keep digits that products of large potentials lose.
        squares = np.square(gradient) - np.square(self.targets)
        value = float(squares @ (0.5 / self.ridges))
        return value - self._margins.agree(gradient), gradient


class _Tilt:
    """The tilted prior while the potentials change."""

    def __init__(self, fit: TiltFit, beliefs: Beliefs) -> None:
        self.beliefs = beliefs
        self._cells = fit._cells
        self._start = fit._start
        self._odds = fit._odds
        self.potentials = fit._potentials
        self._centres = np.zeros(beliefs.cells[-1])
        self._shift = 0.0
        self.log_network = fit._log_network
        self.log_records = fit._log_records
        self.weights = fit._weights
        self.share = fit._share
        self.marginals = self._mixed(beliefs.marginals)

    def centre(self, theta: Table, marginals: Table) -> None:
        """Take the means of potentials under marginals as the constants of their cliques."""
        starts, cells = self.beliefs.cells[:-1], np.diff(self.beliefs.cells)
        means = np.add.reduceat(theta * marginals, starts) / np.add.reduceat(marginals, starts)
        self._centres, self._shift = np.repeat(means, cells), float(means.sum())

    def bounded(self, theta: Table) -> Table:
        """Return the nearest potentials within the bound, which `at` holds them to.

        Beyond it the sum would not grow with a potential, and a fit would gain by it.
        """
        nearest: Table = np.minimum(theta, self._centres + LARGEST_POTENTIAL)
        return nearest

    def outwards(self, theta: Table, slope: Table) -> npt.NDArray[np.bool_]:
        """Return where descent from potentials would leave the bound."""
        left: npt.NDArray[np.bool_] = slope < 0.0
        return left & (theta - self._centres > LARGEST_POTENTIAL - AT_BOUND)

    def at(self, theta: Table) -> tuple[float, Table]:
        """Return the logarithm of the sum of the tilted prior, and its marginals."""
        potentials = np.clip(theta - self._centres, -LARGEST_POTENTIAL, LARGEST_POTENTIAL)
        change = potentials - self.potentials
        for _ in range(steps := self._steps(change)):
            network = self.beliefs.update(change / steps)
            self.log_network += math.log(self.beliefs.growth)
        self.potentials = potentials
        if self._cells is None or self._odds == -math.inf:
            self.marginals = network.copy()
            return self.log_network + self._shift, self.marginals
        tilts = self._cells.looked_up(potentials)
        top = float(tilts.max())
        self.weights = self._start * np.exp(tilts - top)
        summed = float(self.weights.sum())
        self.weights /= summed
        self.log_records = top + math.log(summed)
        network_part = self.log_network - float(np.logaddexp(0.0, self._odds))
        records_part = self.log_records - float(np.logaddexp(0.0, -self._odds))
        log_sum = float(np.logaddexp(network_part, records_part))
        self.share = math.exp(records_part - log_sum)
        self.marginals = self._mixed(network)
        return log_sum + self._shift, self.marginals

    def _mixed(self, network: Table) -> Table:
        """Return the marginals of network and records together."""
        if self._cells is None or self._odds == -math.inf:
            return network.copy()
        records = self._cells.added(self.weights)
        mixed: Table = (1.0 - self.share) * network + self.share * records
        return mixed

    def _steps(self, change: Table) -> int:
        """Return in how many steps the potentials may change, each with a float for its effect."""
        if not change.size:
            return 1
        largest = np.maximum.reduceat(np.abs(change), self.beliefs.cells[:-1])
        most = max(float(largest.max()) / LARGEST_CHANGE, float(largest.sum()) / LARGEST_CHANGES)
        return max(1, math.ceil(most))


def closest_marginal(
    log_base: npt.NDArray[np.float64], target: npt.NDArray[np.float64], ridge: float
) -> npt.NDArray[np.float64]:
    """Return the distribution p that minimizes ``KL(p || m) + ||p - y||_2^2 / (2 s)``.

    ``log(p / m) + (p - y) / s`` is the same constant in all cells. So u = p / s solves
    ``u + log u = z``, with z known but for the constant. Newton's method finds log u, and around it
    the constant: the sum is convex in it, and the first one is too large for no cell.
    """
    held = np.flatnonzero(np.isfinite(log_base))
    reach = target[held] / ridge + log_base[held]
    level = float(reach.max()) - 1.0 / ridge
    for _ in range(LEVELS):
        z = reach - level - math.log(ridge)
        logs = np.where(z > 1.0, np.log(np.maximum(z, 1.0)), z)
        for _ in range(CELL_STEPS):
            u = np.exp(logs)
            logs -= (u + logs - z) / (1.0 + u)
        u = np.exp(logs)
        over = ridge * float(u.sum()) - 1.0
        if abs(over) <= CLOSE:
            break
        level += over / (ridge * float((u / (1.0 + u)).sum()))
    found = np.zeros(target.shape)
    found[held] = u / u.sum()
    return found

"""The analyses of a purpose, made on each table: classifiers tested on real rows, and regressions.

All of it is an exact statistic of private records, so it is for mode ``"exact"`` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.errors import InputError
from jam_dagster.tables.codes.purpose import terms
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.children import ChildAttribute

if TYPE_CHECKING:
    import numpy.typing as npt
    from sklearn.pipeline import Pipeline

    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.attributes import Attribute

    Codes = npt.NDArray[np.intp]
    Floats = npt.NDArray[np.float64]

_ITERATIONS = 200
_TWO = 2


@dataclass(frozen=True)
class Score:
    """How well a classifier predicts the records that it is tested on.

    `accuracy` is the share of records whose value it predicts, `balanced` the mean of that share
    over the values, each counted alike. `auc` is the area under the ROC curve; of more than two
    values the mean of each against the others, by how often each is.
    """

    accuracy: float
    balanced: float
    auc: float = 0.5


@dataclass(frozen=True)
class TargetUtility:
    """How well one column is predicted from all others, on private records; restricted.

    `scores` are by what was trained on: ``"synthetic"``, ``"public"`` where there is one public
    table, ``"prior"``, and ``"private"``, the half of the private records that is not tested on.
    ``"majority"`` always predicts that half's most frequent value.
    """

    target: str
    scores: Mapping[str, Score]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TargetUtility:
        """Return what ``dataclasses.asdict`` made a dictionary of."""
        scores = {name: Score(**score) for name, score in content["scores"].items()}
        return cls(content["target"], scores)


@dataclass(frozen=True)
class Regression:
    """The coefficients of a linear regression on each table; restricted.

    Values are those of the domain's cells, the middle of a bin, and rows with a missing one are
    left out. `coefficients` are by table, in the order of the predictors; ``"private"`` is the
    truth.
    """

    formula: str
    coefficients: Mapping[str, tuple[float, ...]]

    @property
    def predictors(self) -> tuple[str, ...]:
        """The columns of the coefficients."""
        return terms(self.formula)[1]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Regression:
        """Return what ``dataclasses.asdict`` made a dictionary of."""
        found = {name: tuple(values) for name, values in content["coefficients"].items()}
        return cls(content["formula"], found)


def can_classify() -> bool:
    """Return whether scikit-learn is there, of the extra `utility`."""
    return find_spec("sklearn") is not None


def check_can_classify() -> None:
    """Raise if scores of classifiers could not be measured."""
    if not can_classify():
        raise InputError(
            "a target of the purpose needs scikit-learn, which is not installed: pip install"
            " 'jam-dagster[utility]', or remove the target. Nothing was charged."
        )


def target_utility(
    private: EncodedTable, tables: Mapping[str, MarginalSource], target: str
) -> TargetUtility | None:
    """Train a classifier on each table, and test all on half of the private records.

    The half is chosen by a fixed seed. A table without rows, such as several public tables of
    different columns, is left out. A private table of fewer than two records gives None.

    Parameters
    ----------
    private
        The private table.
    tables
        The tables to learn from, by name.
    target
        The column to predict.
    """
    if private.records < _TWO:
        return None
    # All have missing values where they may have unreadable ones, as released rows do.
    private = private.as_released()
    order = np.random.default_rng(0).permutation(private.records)
    tested, kept = np.array_split(order, 2)
    held, ceiling = private.take(tested), private.take(kept)
    truth = held.column(target).astype(np.intp)
    most = np.bincount(ceiling.column(target)).argmax()
    guessed = np.full_like(truth, most)
    scores = {"majority": Score(*_hits(truth, guessed))}
    for name, table in {**tables, "private": ceiling}.items():
        if isinstance(table, EncodedTable) and table.records:
            classifier = Classifier.of(table.as_released(), target)
            hits = _hits(truth, classifier.predicted(held))
            scores[name] = Score(*hits, classifier.area(held))
    return TargetUtility(target, scores)


@dataclass(frozen=True, eq=False)
class Classifier:
    """A logistic regression on indicators of all other columns' codes.

    `classes` are the codes of the target that the training rows have. `model` is None if there is
    only one.
    """

    target: str
    classes: Codes
    model: Pipeline | None

    @classmethod
    def of(cls, table: EncodedTable, target: str) -> Classifier:
        """Train on the rows of a table."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder

        values = table.column(target).astype(np.intp)
        classes = np.unique(values)
        if len(classes) < _TWO or len(table.domain.names) < _TWO:
            most = np.bincount(values).argmax()
            return cls(target, np.array([most], np.intp), None)
        sizes = [table.domain.sizes[name] for name in table.domain.names if name != target]
        model = make_pipeline(
            OneHotEncoder(categories=[np.arange(size) for size in sizes]),
            LogisticRegression(max_iter=_ITERATIONS, random_state=0),
        )
        model.fit(_features(table, target), values)
        return cls(target, classes, model)

    def chances(self, rows: EncodedTable) -> Floats:
        """Return the chance of each value of the target, shape ``(records, size)``."""
        made = np.zeros((rows.records, rows.domain.sizes[self.target]))
        made[:, self.classes] = 1.0
        if self.model is not None:
            made[:, self.classes] = self.model.predict_proba(_features(rows, self.target))
        return made

    def predicted(self, rows: EncodedTable) -> Codes:
        """Return the most likely code of the target of each row."""
        most: Codes = self.chances(rows).argmax(axis=1)
        return most

    def area(self, rows: EncodedTable) -> float:
        """Return the area under the ROC curve on some rows; see `Score`."""
        truth, chances = rows.column(self.target).astype(np.intp), self.chances(rows)
        counts = np.bincount(truth, minlength=chances.shape[1])
        there = np.flatnonzero(counts)
        if len(there) < _TWO:
            return 0.5
        areas = [_area(truth == one, chances[:, one]) for one in there]
        return float(np.average(areas, weights=counts[there]))


def _features(table: EncodedTable, target: str) -> Codes:
    names = [name for name in table.domain.names if name != target]
    return np.stack([table.column(name).astype(np.intp) for name in names], axis=1)


def _area(positive: npt.NDArray[np.bool_], scores: Floats) -> float:
    """Return the chance that a positive record has a higher score than another: ties are half."""
    _, ranks, often = np.unique(scores, return_inverse=True, return_counts=True)
    middle = np.cumsum(often) - (often - 1) / 2
    ours = int(positive.sum())
    above = middle[ranks][positive].sum() - ours * (ours + 1) / 2
    return float(above / (ours * (len(positive) - ours)))


def _hits(truth: Codes, predicted: Codes) -> tuple[float, float]:
    right = truth == predicted
    recalls = [right[truth == value].mean() for value in np.unique(truth)]
    return float(right.mean()), float(np.mean(recalls))


def regression(
    private: EncodedTable, tables: Mapping[str, MarginalSource], formula: str
) -> Regression | None:
    """Return the coefficients of a regression on each table that has rows.

    None if a column has neither numbers nor two values.

    Parameters
    ----------
    private
        The private table.
    tables
        The tables to compare with it, by name.
    formula
        The outcome and the predictors; see `jam_dagster.tables.codes.purpose`.
    """
    outcome, predictors = terms(formula)
    points = {name: points_of(private.domain.attribute(name)) for name in (outcome, *predictors)}
    found = {}
    for name, table in {"private": private, **tables}.items():
        if isinstance(table, EncodedTable) and table.records:
            columns = []
            for column, values in points.items():
                if values is None:
                    return None
                columns.append(values[table.column(column)])
            found[name] = _coefficients(np.stack(columns, axis=1))
    return Regression(formula, found)


def _coefficients(rows: Floats) -> tuple[float, ...]:
    known = rows[~np.isnan(rows).any(axis=1)]
    features = np.column_stack([known[:, 1:], np.ones(len(known))])
    fitted = np.linalg.lstsq(features, known[:, 0], rcond=None)[0]
    return tuple(fitted[:-1].tolist())


def points_of(attribute: Attribute) -> Floats | None:
    """Return the number of each cell, NaN for a missing one; None if values are no numbers.

    Two values are 0 and 1 in their order.
    """
    one = attribute.child if isinstance(attribute, ChildAttribute) else attribute
    made = np.full(attribute.size, np.nan)
    if isinstance(one, BinnedAttribute):
        low, high = one.bin_limits
        made[: len(low)] = (np.asarray(low, float) + np.asarray(high, float)) / 2
        return made
    numbers = [value for value in one.listed if not isinstance(value, bool | str)]
    if len(numbers) == len(one.listed) > 0:
        made[: len(numbers)] = numbers
    elif len(one.listed) == _TWO:
        made[:_TWO] = 0.0, 1.0
    else:
        return None
    return made


def utility(
    private: MarginalSource,
    tables: Mapping[str, MarginalSource],
    targets: tuple[str, ...],
    formulas: tuple[str, ...],
) -> tuple[tuple[TargetUtility, ...], tuple[Regression, ...], str]:
    """Return the analyses of a purpose, and in words why some could not be made.

    Parameters
    ----------
    private
        The private table.
    tables
        The tables to compare, by name.
    targets, formulas
        The columns to predict, and the regressions.
    """
    if not isinstance(private, EncodedTable):
        left = "the private rows are counted, not held" if targets or formulas else ""
        return (), (), left
    reasons = []
    classified: list[TargetUtility] = []
    if targets and not can_classify():
        reasons.append("scikit-learn is not installed: pip install 'jam-dagster[utility]'")
    elif len(private.domain.names) >= _TWO:
        found = (target_utility(private, tables, target) for target in targets)
        classified = [one for one in found if one is not None]
    fitted = [regression(private, tables, formula) for formula in formulas]
    if None in fitted:
        reasons.append("a column of a regression has neither numbers nor two values")
    regressed = [one for one in fitted if one is not None]
    return tuple(classified), tuple(regressed), "; ".join(reasons)

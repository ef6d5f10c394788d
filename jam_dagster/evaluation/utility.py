"""Train on synthetic, test on real: what a classifier learns of one column from each table.

All of it is an exact statistic of private records, so it is for mode ``"exact"`` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.tables.codes.table import EncodedTable

if TYPE_CHECKING:
    import numpy.typing as npt

    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.domain import Domain

    Codes = npt.NDArray[np.intp]

_ITERATIONS = 200


@dataclass(frozen=True)
class Score:
    """How well a classifier predicts the records that it is tested on.

    `accuracy` is the share of records whose value it predicts, `balanced` the mean of that share
    over the values, each counted alike.
    """

    accuracy: float
    balanced: float


@dataclass(frozen=True)
class TargetUtility:
    """How well one column is predicted from all others, on private records; restricted.

    `scores` are by what was trained on: ``"synthetic"``, ``"public"`` where there is one public
    table, and ``"private"``, the half of the private records that is not tested on. ``"majority"``
    always predicts that half's most frequent value.
    """

    target: str
    scores: Mapping[str, Score]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TargetUtility:
        """Return what ``dataclasses.asdict`` made a dictionary of."""
        scores = {name: Score(**score) for name, score in content["scores"].items()}
        return cls(content["target"], scores)


def check_target(target: str, domain: Domain) -> None:
    """Raise unless classifiers can be trained for a column."""
    if target not in domain.names:
        # The columns of a domain from private data are not listed.
        names = "its columns" if domain.restricted else ", ".join(domain.names)
        raise SpecificationError(
            f"evaluation.target {target!r} is no column of the domain: name one of {names}"
        )
    if len(domain.names) < 2:
        raise SpecificationError(
            f"evaluation.target {target!r} is the only column: a classifier needs another one"
        )
    if find_spec("sklearn") is None:
        raise InputError(
            "evaluation.target needs scikit-learn, which is not installed: pip install"
            " 'jam-dagster[utility]', or remove the key. Nothing was charged."
        )


def target_utility(
    private: EncodedTable, synthetic: MarginalSource, public: MarginalSource | None, target: str
) -> TargetUtility | None:
    """Train a classifier on each table, and test all on half of the private records.

    The classifier is a logistic regression on indicators of all other columns' codes. The half is
    chosen by a fixed seed.

    A table without rows, such as several public tables of different columns, is left out. A private
    table of fewer than two records gives None.
    """
    if private.records < 2:
        return None
    order = np.random.default_rng(0).permutation(private.records)
    tested, kept = np.array_split(order, 2)
    held, ceiling = private.take(tested), private.take(kept)
    truth = held.column(target).astype(np.intp)
    most = np.bincount(ceiling.column(target)).argmax()
    scores = {"majority": _score(truth, np.full_like(truth, most))}
    for name, table in (("synthetic", synthetic), ("public", public), ("private", ceiling)):
        if isinstance(table, EncodedTable) and table.records:
            scores[name] = _score(truth, _predicted(table, held, target))
    return TargetUtility(target, scores)


def _predicted(table: EncodedTable, held: EncodedTable, target: str) -> Codes:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    values = table.column(target).astype(np.intp)
    if (values == values[0]).all():
        return np.full(held.records, values[0])
    others = [name for name in table.domain.names if name != target]
    sizes = [table.domain.size((name,)) for name in others]
    model = make_pipeline(
        OneHotEncoder(categories=[np.arange(size) for size in sizes]),
        LogisticRegression(max_iter=_ITERATIONS, random_state=0),
    )
    model.fit(_features(table, others), values)
    return np.asarray(model.predict(_features(held, others)), dtype=np.intp)


def _features(table: EncodedTable, names: list[str]) -> Codes:
    return np.stack([table.column(name).astype(np.intp) for name in names], axis=1)


def _score(truth: Codes, predicted: Codes) -> Score:
    right = truth == predicted
    recalls = [right[truth == value].mean() for value in np.unique(truth)]
    return Score(float(right.mean()), float(np.mean(recalls)))

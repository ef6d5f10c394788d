"""Classifiers of survival on Titanic that learn from a release, or from what is free.

    python -m benchmarks.titanic_classifiers --data data --epsilon 1 --seeds 5

Survival is unknown (value 2) in a third of the rows, which both learning and testing leave out: the
area under the ROC curve is that of survivors against the others. All are tested on the private
rows, as there are no further ones. `resampled` learns from private rows drawn with replacement,
most of which it is tested on, so that its area is too high.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jam_dagster.evaluation.utility import Classifier
from jam_dagster.mechanisms.loops.rows import finished
from jam_dagster.models.base import Model
from jam_dagster.models.row_search import search_rows
from jam_dagster.models.tilted.corrected import with_moments
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.tables import EncodedTable
from jam_dagster.trials.runs import Run
from jam_dagster.trials.splits import Split, SplitFiles

TARGET = "Survived"
UNKNOWN = 2
MECHANISMS = ("tilt", "jam_pgm", "aim")


def tables(
    split: Split, public: EncodedTable, epsilon: float, seed: int
) -> dict[str, EncodedTable]:
    """Return the rows to learn from, by name."""
    private = split.private
    prior = with_moments(PublicPrior.of(split.domain, public).model(private.records))
    models: dict[str, Model] = {"public_prior": prior}
    workload = Run(split.name, MECHANISMS[0]).marginals(split.domain)
    for name in MECHANISMS:
        run = Run(split.name, name, epsilon=epsilon, seed=seed)
        mechanism = run.make()
        known = public if mechanism.uses_public else None
        models[name] = mechanism.run(private, known, workload, run.draws()).model
    made = {"public": public}
    for name, model in models.items():
        rng = np.random.default_rng(seed)
        drawn = model.sample(private.records, rng)
        made[name] = finished(search_rows(model, drawn, workload, rng).table, rng)
    drawn_again = np.random.default_rng(seed).integers(0, private.records, private.records)
    return {**made, "resampled": private.take(np.sort(drawn_again))}


def known_rows(table: EncodedTable) -> EncodedTable:
    """Return the rows whose survival is known."""
    return table.take(np.flatnonzero(table.column(TARGET) != UNKNOWN))


def areas(table: EncodedTable, tested: EncodedTable) -> dict[str, float]:
    """Return the area of each kind of classifier that learns from a table."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    names = [name for name in table.domain.names if name != TARGET]
    features, others = (
        np.stack([one.column(name) for name in names], axis=1) for one in (table, tested)
    )
    boosted = HistGradientBoostingClassifier(random_state=0).fit(features, table.column(TARGET))
    chances = boosted.predict_proba(others)[:, 1]
    return {
        "logistic regression": Classifier.of(table, TARGET).area(tested),
        "gradient boosting": float(roc_auc_score(tested.column(TARGET), chances)),
    }


def summary(found: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """Return the means and standard errors over seeds, as lines of Markdown."""
    kinds = list(next(iter(found.values()))[0])
    lines = [f"| learns from | {' | '.join(kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    for name, rows in found.items():
        cells = []
        for kind in kinds:
            held = [row[kind] for row in rows]
            error = statistics.stdev(held) / len(held) ** 0.5 if len(held) > 1 else 0.0
            cells.append(f"{statistics.mean(held):.3f} ± {error:.3f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of areas."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args(arguments)
    split = SplitFiles("titanic", target=TARGET).load(given.data)
    assert split.public is not None
    assert isinstance(split.private, EncodedTable)
    tested = known_rows(split.private)
    found: dict[str, list[dict[str, float]]] = {}
    for seed in range(given.seeds):
        for name, table in tables(split, split.public, given.epsilon, seed).items():
            found.setdefault(name, []).append(areas(known_rows(table), tested))
    print("\n".join(summary(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

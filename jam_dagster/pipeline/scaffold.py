"""What ``dg scaffold defs jam_dagster.SyntheticRelease`` writes: a release to fill in."""

from __future__ import annotations

from dagster.components.component_scaffolding import scaffold_component
from dagster.components.scaffold.scaffold import Scaffolder, ScaffoldRequest

from jam_dagster.privacy import EVALUATION_SHARE


class SyntheticReleaseScaffolder(Scaffolder):
    """Writes a ``defs.yaml`` that loads as it is and names everything worth changing."""

    def scaffold(self, request: ScaffoldRequest) -> None:
        """Write the files of a new release."""
        scaffold_component(
            request,
            {
                "release": request.target_path.name,
                "dataset": "census_demo",
                "private": {"demo": "census", "part": "private"},
                "public": {"demo": "census", "part": "public"},
                "domain": {"identify": "public"},
                "privacy": {"epsilon": 1.0, "delta": 1.0e-9, "noise": "exact", "edition": "1"},
                "mechanism": {
                    "name": "jam_pgm",
                    "rounds": 30,
                    "alpha": 0.8,
                    "size_limit_mb": 80.0,
                    "estimator": "accelerated",
                    "iterations": 1000,
                    "tolerance": 0.1,
                },
                "workload": {"degree": 3},
                "evaluation": {"mode": "private", "share": EVALUATION_SHARE},
            },
        )

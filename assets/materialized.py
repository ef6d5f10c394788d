"""Whether a release was made in this instance: ``python -m assets.materialized health_survey``."""

import sys

import dagster as dg


def is_materialized(instance: dg.DagsterInstance, release: str) -> bool:
    """Whether the instance knows a report of a release, which is what is made last.

    Parameters
    ----------
    instance
        Where the release would have been made.
    release
        Its name.
    """
    report = dg.AssetKey([release, "release_report"])
    return instance.get_latest_materialization_event(report) is not None


def main() -> None:
    """Exit with 0 if the release that is named was made, else with 1."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m assets.materialized RELEASE")
    with dg.DagsterInstance.get() as instance:
        sys.exit(0 if is_materialized(instance, sys.argv[1]) else 1)


if __name__ == "__main__":
    main()

"""What tells people that a budget runs out: an event on the asset, and a sensor that passes it on.

The event is an observation of the asset that holds the reservation. It names amounts of budget,
which are public, and nothing of any table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import dagster as dg

from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline.assets.metadata import tidy
from jam_dagster.pipeline.budget.labels import RESERVES_TAG

ALERT = "budget_alert"
_AT_ONCE = 100


@dataclass(frozen=True)
class BudgetAlert:
    """A release was refused, for want of budget or of approval, or one soon will be.

    Parameters
    ----------
    kind
        ``refused``: it did not fit, and nothing was opened. ``not approved``: it waits for the
        privacy officer. ``low``: it fits, and few after it.
    release, dataset, partition, edition
        Which; the partition is empty where there are none.
    asked_rho, asked_epsilon
        What the release asks for.
    remaining_rho, remaining_epsilon
        What the dataset has left, epsilon at the delta of its grant.
    partitions_that_still_fit
        How many more partitions fit at this price before the first that does not; None where the
        release has none, or any number fits.
    lasts_until
        The day, as ``2026-09-01``, on which the first that does not fit is due; None where none is.
    renews_on
        The day on which the budget renews after that; None if it never does.
    text
        All of it in words.
    """

    kind: Literal["refused", "not approved", "low"]
    release: str
    dataset: str
    partition: str
    edition: str
    asked_rho: float
    asked_epsilon: float
    remaining_rho: float
    remaining_epsilon: float
    partitions_that_still_fit: int | None
    lasts_until: str | None
    renews_on: str | None
    text: str

    @property
    def title(self) -> str:
        """One line, for the subject of a message."""
        which = f"{self.release} {self.partition}".strip()
        if self.kind == "refused":
            return f"{which} was refused: the privacy budget of {self.dataset} does not suffice"
        if self.kind == "not approved":
            return f"{which} waits for approval: it would be paid by {self.dataset}"
        return f"{which} was released: the privacy budget of {self.dataset} is running out"

    @property
    def metadata(self) -> dict[str, Any]:
        """The alert as Dagster's metadata, to six digits; what is None is left out."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        return tidy({ALERT: values.pop("kind"), **values})

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> BudgetAlert:
        """Return the alert that an observation's metadata tells."""
        values: dict[str, Any] = {one.name: None for one in fields(cls)}
        values |= {name: getattr(value, "value", value) for name, value in metadata.items()}
        return cls(kind=values.pop(ALERT), **{one: values[one] for one in values if one != "kind"})


def build_budget_sensor(
    notify: Callable[[BudgetAlert], object],
    *,
    name: str = "privacy_budget_alerts",
    minimum_interval_seconds: int = 60,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """Build a sensor that passes on what the releases of a code location tell of their budgets.

    An alert is left where a release is refused for want of budget, where it waits for approval,
    and where it fits but few partitions after it will. Alerts that were there when the sensor
    first runs are not passed on. An alert whose `notify` fails is tried again at the next tick.

    Parameters
    ----------
    notify
        Is called with each alert: sends its `title` and `text` by e-mail or to a chat.
    name
        Of the sensor.
    minimum_interval_seconds
        How often it looks.
    default_status
        Whether it runs without being started in the UI.

    Examples
    --------
    >>> import dagster as dg
    >>> from jam_dagster.pipeline import build_budget_sensor
    >>> alerts = build_budget_sensor(lambda alert: print(alert.title, alert.text))
    >>> defs = dg.Definitions(sensors=[alerts])  # merged with those of the releases
    """

    @dg.sensor(
        name=name,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description="Passes on that a privacy budget runs out: a release was refused, or few more"
        " of its partitions fit.",
    )
    def privacy_budget_alerts(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        seen: dict[str, int] | None = json.loads(context.cursor) if context.cursor else None
        after = dict(seen or {})
        sent = 0
        for key in _reserving(context):
            name = key.to_user_string()
            for at, alert in _alerts(context.instance, key, after.get(name), first=seen is None):
                if alert is not None:
                    try:
                        notify(alert)
                    except Exception:
                        if not sent:
                            raise
                        # What was sent must not be sent again: the rest waits for the next tick.
                        context.log.exception("an alert could not be sent; it is tried again")
                        context.update_cursor(json.dumps(after))
                        return dg.SkipReason(f"{sent} sent; another could not be")
                    sent += 1
                after[name] = at
            after.setdefault(name, 0)
        context.update_cursor(json.dumps(after))
        return dg.SkipReason(
            f"{sent} sent" if sent else "no budget has run out, or low, since the last look"
        )

    return privacy_budget_alerts


def _reserving(context: dg.SensorEvaluationContext) -> list[dg.AssetKey]:
    """Return the assets of the code location that leave alerts."""
    if context.repository_def is None:
        raise SpecificationError("a budget sensor needs the code location that it is in.")
    graph = context.repository_def.asset_graph
    return sorted(key for key in graph.get_all_asset_keys() if RESERVES_TAG in graph.get(key).tags)


def _alerts(
    instance: dg.DagsterInstance, key: dg.AssetKey, after: int | None, *, first: bool
) -> Iterator[tuple[int, BudgetAlert | None]]:
    """Yield the alerts of an asset since a place in the event log, each with its own place."""
    if first:
        found = instance.fetch_observations(key, limit=1).records
        yield from ((one.storage_id, None) for one in found)
        return
    since = dg.AssetRecordsFilter(asset_key=key, after_storage_id=after)
    for one in instance.fetch_observations(since, limit=_AT_ONCE, ascending=True).records:
        observed = one.asset_observation
        is_alert = observed is not None and ALERT in observed.metadata
        yield one.storage_id, BudgetAlert.of(observed.metadata) if observed and is_alert else None

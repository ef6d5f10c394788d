"""Budget alerts: an observation of the asset, and a sensor that passes it on.

The event is an observation of the asset that holds the reservation. It names amounts of budget,
which are public, and nothing of any table. Who may launch runs can report observations as well, and
set the sensor's cursor: what no run wrote is not passed on, and no cursor silences what one wrote.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import dagster as dg

from jam_dagster.errors import (
    BudgetError,
    BudgetExceededError,
    LedgerIntegrityError,
    NotApprovedError,
    SpecificationError,
)
from jam_dagster.pipeline.budget.labels import RESERVES_TAG
from jam_dagster.pipeline.markdown import literal
from jam_dagster.privacy.ledger.forecast import renewal_after

if TYPE_CHECKING:
    from jam_dagster.pipeline.graph import ReleaseGraph
    from jam_dagster.release.funding import LedgerFunding

AlertKind = Literal["refused", "low"]

ALERT = "budget_alert"
_AT_ONCE = 100
# Reports may be before an alert, however many. A tick that takes a minute is stopped, and would
# begin again.
_SECONDS = 20


@dataclass(frozen=True)
class BudgetAlert:
    """A release was refused for want of budget or approval, or the budget is about to end.

    Parameters
    ----------
    kind
        ``refused``: nothing was opened. ``low``: it was reserved, and few fit after it.
    release, dataset, partition, edition
        Which; the partition is empty if there are none.
    text
        All of it in words.
    """

    kind: AlertKind
    release: str
    dataset: str
    partition: str
    edition: str
    text: str

    @property
    def title(self) -> str:
        """One line, for the subject of a message."""
        which = f"{self.release} {self.partition}".strip()
        if self.kind == "refused":
            return f"{which} was refused by the privacy budget of {self.dataset}"
        return f"{which} was reserved: the privacy budget of {self.dataset} is about to end"

    def observation(self, asset: dg.AssetKey) -> dg.AssetObservation:
        """Return the event that a run leaves on an asset."""
        values = asdict(self)
        return dg.AssetObservation(
            asset,
            description=literal(self.title),
            metadata={ALERT: values.pop("kind"), **values},
            partition=self.partition or None,
        )

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> BudgetAlert:
        """Return the alert that an observation's metadata has."""
        values = {name: getattr(value, "value", value) for name, value in metadata.items()}
        names = [one.name for one in fields(cls) if one.name != "kind"]
        return cls(values[ALERT], *(values.get(name, "") for name in names))


@contextmanager
def alert_of_refusal(
    graph: ReleaseGraph, context: dg.AssetExecutionContext, funding: LedgerFunding
) -> Iterator[None]:
    """Leave an alert if a release is refused; if it does not fit, add when the budget renews."""
    try:
        yield
    except (BudgetExceededError, NotApprovedError) as error:
        refusal: BudgetError = error
        if isinstance(error, BudgetExceededError):
            balance = funding.ledger.balance(funding.key.dataset)
            refusal = BudgetExceededError(f"{error}. {renewal_after(balance, datetime.now(UTC))}")
        log_alert(graph, context, funding, "refused", str(refusal))
        raise refusal from None


@contextmanager
def refusal_ends_run(context: dg.AssetExecutionContext) -> Iterator[None]:
    """End the run as canceled where the ledger refuses the release, after a line that says why.

    Dagster shows each asset and check that a failed run leaves unmade as failed. A canceled run
    leaves them as they were, is not retried, and ends a command with an error all the same.
    """
    try:
        yield
    except LedgerIntegrityError:
        raise
    except BudgetError as refused:
        context.log.error(f"Refused: {refused}")
        context.instance.report_run_canceling(context.run, message="The release is refused.")
        raise


def log_alert(
    graph: ReleaseGraph,
    context: dg.AssetExecutionContext,
    funding: LedgerFunding,
    kind: AlertKind,
    text: str,
) -> None:
    """Leave an alert on the asset that reserves, for sensors and for its page in the UI."""
    key = funding.key
    alert = BudgetAlert(kind, key.release, key.dataset, key.partition, key.edition, text)
    context.log_event(alert.observation(graph.key("privacy_budget")))


def build_budget_sensor(
    notify: Callable[[BudgetAlert], object],
    *,
    name: str = "privacy_budget_alerts",
    minimum_interval_seconds: int = 60,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """Build a sensor that passes on the budget alerts of a code location's releases.

    A release leaves an alert if it is refused for want of budget or approval, and if it fits but
    few partitions after it will. Alerts from before the sensor's first run are not passed on.
    An alert whose `notify` fails is tried again at the next tick.
    Reports from outside of the code location's runs are not believed, and where the cursor
    was reset, alerts are passed on again.

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
        description="Passes on that a privacy budget is about to end, or refused a release.",
    )
    def privacy_budget_alerts(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        after = _passed_on(context.cursor)
        until = time.monotonic() + _SECONDS
        sent = 0
        for key in _reserving(context):
            name = key.to_user_string()
            after[name] = _start(context, key, after.get(name))
            for at, alert in _alerts(context, key, after[name], until):
                if alert is not None:
                    try:
                        notify(alert)
                    except Exception:
                        if not sent:
                            raise
                        # Sent alerts must not be sent again: the rest waits for the next tick.
                        context.log.exception("an alert could not be sent; it is tried again")
                        context.update_cursor(json.dumps(after))
                        return dg.SkipReason(f"{sent} sent; another could not be")
                    sent += 1
                after[name] = at
        context.update_cursor(json.dumps(after))
        return dg.SkipReason(f"{sent} sent" if sent else "no new budget alerts")

    return privacy_budget_alerts


def _passed_on(cursor: str | None) -> dict[str, int]:
    """Return how far into the event log alerts were passed on, by asset, as a cursor says."""
    try:
        read = json.loads(cursor or "{}")
    except (ValueError, RecursionError):
        return {}
    places = read.items() if isinstance(read, dict) else ()
    return {name: at for name, at in places if isinstance(at, int)}


def _reserving(context: dg.SensorEvaluationContext) -> list[dg.AssetKey]:
    """Return the assets of the code location that leave alerts."""
    if context.repository_def is None:
        raise SpecificationError("a budget sensor needs the code location that it is in.")
    graph = context.repository_def.asset_graph
    return sorted(key for key in graph.get_all_asset_keys() if RESERVES_TAG in graph.get(key).tags)


def _start(context: dg.SensorEvaluationContext, key: dg.AssetKey, passed_on: int | None) -> int:
    """Return the place in the event log behind which the alerts of an asset are to be passed on.

    A place that the log does not have was set by somebody, and so may one that it has: what came
    since the last tick began is passed on in any case, if need be twice.
    """
    last, ticked = _last(context, key), context.last_tick_completion_time
    if not context.cursor and ticked is None:
        return last
    start = passed_on if passed_on is not None and 0 <= passed_on <= last else 0
    return start if ticked is None else min(start, _last(context, key, before=ticked))


def _last(
    context: dg.SensorEvaluationContext, key: dg.AssetKey, before: float | None = None
) -> int:
    """Return the place of the last observation of an asset; 0 where there is none."""
    seen = dg.AssetRecordsFilter(key, before_timestamp=before)
    found = context.instance.fetch_observations(seen, limit=1)
    return max((one.storage_id for one in found.records), default=0)


def _alerts(
    context: dg.SensorEvaluationContext, key: dg.AssetKey, after: int, until: float
) -> Iterator[tuple[int, BudgetAlert | None]]:
    """Yield the observations of an asset behind a place, each with its own place, and its alert."""
    while True:
        since = dg.AssetRecordsFilter(key, after_storage_id=after)
        found = context.instance.fetch_observations(since, limit=_AT_ONCE, ascending=True)
        for one in found.records:
            after = one.storage_id
            yield after, _alert(context, one)
        if not found.has_more or time.monotonic() > until:
            return


def _alert(context: dg.SensorEvaluationContext, record: dg.EventLogRecord) -> BudgetAlert | None:
    """Return the alert that an observation is, if a run of the code location left it."""
    observed = record.asset_observation
    if observed is None or ALERT not in observed.metadata or context.repository_def is None:
        return None
    run = context.instance.get_run_by_id(record.run_id)
    if run is None or not context.repository_def.has_job(run.job_name):
        return None
    return BudgetAlert.of(observed.metadata)

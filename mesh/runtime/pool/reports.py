"""The reports and delivery events of the pools of one virtual cluster: they go to the journal, to the log and to
metrics."""

from __future__ import annotations

from typing import assert_never

from mesh.pool.common.delivery_events import DeliveryEvent
from mesh.pool.common.effects import GivenUp, Gone, Report
from mesh.telemetry.journal import DeliveryLog
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metrics import Metrics

log = get_logger(__name__)


class Reports:
    """Passes reports and delivery events of pools to log, metrics and journal. name: the name of the virtual cluster.
    journal: None if no journal is kept."""

    def __init__(self, name: str, metrics: Metrics, journal: DeliveryLog | None) -> None:
        self._name = name
        self._metrics = metrics
        self._journal = journal

    def report(self, effect: DeliveryEvent | GivenUp | Gone | Report) -> None:
        match effect:
            case DeliveryEvent():
                if self._journal is not None:
                    self._journal.add(self._name, effect)
            case Gone(group, partition, span, offsets, was_read):
                self._metrics.gone(self._name, group, offsets)
                what = "unacknowledged" if was_read else "unread"
                fields = {"group": group, "partition": str(partition), "span": str(span), "offsets": offsets}
                log.warning(f"{what} offsets skipped: gone upstream", virtual_cluster=self._name, **fields)
            case GivenUp(group, partition, span, history):
                self._metrics.given_up(self._name, group, len(span))
                fields = {"group": group, "partition": str(partition), "span": str(span)}
                reason = history.cause.value if history.cause is not None else ""
                about = {"member": history.member, "deliveries": history.count, "reason": reason}
                log.warning("records given up", virtual_cluster=self._name, **fields, **about)
            case Report(event, about, level):
                if level == "error":
                    self._metrics.violation(self._name)
                getattr(log, level)(event, virtual_cluster=self._name, **about)
            case _:
                assert_never(effect)

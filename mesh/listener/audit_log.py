"""The audit log: an entry and a count for each request that the rules refused."""

from __future__ import annotations

from mesh.listener.peer import Peer
from mesh.security.rules import Refusal
from mesh.telemetry.log_rate import LogRate
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metrics import Metrics
from mesh.wire.apis import ApiKey

log = get_logger(__name__)


class AuditLog:
    """The audit log of one virtual cluster. All refusals are counted. Entries are written at a bounded rate, and have
    the number of entries that were left out before them."""

    def __init__(self, virtual_cluster: str, metrics: Metrics) -> None:
        self._virtual_cluster = virtual_cluster
        self._metrics = metrics
        self._rate = LogRate()

    def refused(self, connection: Peer, api_key: ApiKey, client_id: str | None, refusal: Refusal, now: float) -> None:
        api, operation, resource_type = api_key.name, refusal.operation.name, refusal.resource_type.name
        self._metrics.refusal(self._virtual_cluster, api, operation, resource_type)
        left_out = self._rate.admit(now)
        if left_out is None:
            return
        log.warning(
            "request denied",
            virtual_cluster=self._virtual_cluster,
            connection=connection.id,
            client_host=connection.client_host,
            client_id=(client_id or "")[:200],
            principal=connection.session.principal,
            api=api,
            operation=operation,
            resource_type=resource_type,
            resource=refusal.name[:250],
            left_out=left_out,
        )

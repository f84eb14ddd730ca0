"""The requests of a pool's clients: each causes a step of the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.apis.answers import Answer
from mesh.apis.api import AnyApi, RequestFields
from mesh.listener.listener import Listener
from mesh.listener.requests import PendingRequest
from mesh.pool.apis.context import Endpoint, PoolContext
from mesh.pool.apis.table import TABLE
from mesh.pool.common.effects import Effect
from mesh.pool.common.results import CommitResult
from mesh.pool.core import PoolCore
from mesh.pool.share.requests import ShareAcknowledgeResult, ShareFetchResult
from mesh.pool.state.fetch import Delivered, FetchResult
from mesh.runtime.pool.connection import PoolConnection
from mesh.runtime.pool.step_loop import StepLoop
from mesh.wire.apis import ApiKey
from mesh.wire.messages import OffsetCommitRequest, RequestMessage


class PoolRequests:
    """Handles the requests of clients as steps of a pool. Implements `mesh.listener.requests.Handler`. endpoint: the
    addresses for clients; may change."""

    table: Mapping[ApiKey, AnyApi] = TABLE

    def __init__(self, listener: Listener, core: PoolCore, endpoint: Endpoint, step_loop: StepLoop) -> None:
        self.endpoint = endpoint
        self._listener = listener
        self._core = core
        self._step_loop = step_loop
        self._violations = 0
        """The number of violations before the current request."""

    def context(self, pending: PendingRequest, fields: RequestFields) -> PoolContext:
        assert isinstance(pending.connection, PoolConnection)
        self._violations = self._core.violations
        return PoolContext(*fields, self._core, self.endpoint, pending.connection.empty_answer)

    def carry_out(self, pending: PendingRequest, effects: Sequence[Effect]) -> None:
        self._step_loop.carry_out(effects)
        if self._core.violations > self._violations and not any(_answers(effect, pending) for effect in effects):
            pending.connection.client.abort()  # the pool closed before it answered the request

    def answer_early(self, pending: PendingRequest) -> None:
        self._step_loop.carry_out(self._core.answer_early(pending, self._step_loop.now()))

    def is_unthrottled(self, result: object) -> bool:
        """True for new records, which the client limits by how fast it commits, and for acknowledgements of records
        that the client has had."""
        if isinstance(result, ShareAcknowledgeResult):
            return result.settles
        if not isinstance(result, FetchResult | ShareFetchResult):
            return False
        return result.delivered is not None and result.delivered.is_new

    def count(self, message: RequestMessage, result: object) -> None:
        name, metrics = self._listener.name, self._listener.metrics
        match result:
            case (
                FetchResult(delivered=Delivered(group, topics, redelivered))
                | ShareFetchResult(delivered=Delivered(group, topics, redelivered))
            ):
                for topic, (records, size) in topics.items():
                    metrics.sent(name, group, topic, records, size)
                if redelivered:
                    metrics.redelivered(name, group, redelivered)
            case CommitResult(errors) if isinstance(message, OffsetCommitRequest):
                for error in errors.values():
                    metrics.committed(name, message.group_id, error)
            case _:
                pass


def _answers(effect: Effect, pending: PendingRequest) -> bool:
    return isinstance(effect, Answer) and effect.ticket is pending

"""What a pool does with the requests of its clients: a step of the pool for each."""

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
from mesh.pool.share.requests import ShareFetchResult
from mesh.pool.state.fetch import Delivered, FetchResult
from mesh.runtime.pool.connection import PoolConnection
from mesh.runtime.pool.step_loop import StepLoop
from mesh.wire.apis import ApiKey
from mesh.wire.messages import OffsetCommitRequest, RequestMessage


class PoolRequests:
    """Implements `mesh.listener.requests.Handler` by steps of a pool. endpoint: what clients are told to come to; may
    change."""

    table: Mapping[ApiKey, AnyApi] = TABLE

    def __init__(self, listener: Listener, core: PoolCore, endpoint: Endpoint, step_loop: StepLoop) -> None:
        self.endpoint = endpoint
        self._listener = listener
        self._core = core
        self._step_loop = step_loop
        self._violations = 0
        """Before the request that is being taken up."""

    def context(self, pending: PendingRequest, fields: RequestFields) -> PoolContext:
        assert isinstance(pending.connection, PoolConnection)
        self._violations = self._core.violations
        return PoolContext(*fields, self._core, self.endpoint, pending.connection.empty_answer)

    def carry_out(self, pending: PendingRequest, effects: Sequence[Effect]) -> None:
        self._step_loop.carry_out(effects)
        if self._core.violations > self._violations and not any(_answers(effect, pending) for effect in effects):
            pending.connection.client.abort()  # what was to answer it is closed

    def answer_early(self, pending: PendingRequest) -> None:
        self._step_loop.carry_out(self._core.answer_early(pending, self._step_loop.now()))

    def is_unthrottled(self, result: object) -> bool:
        """New records: what limits them is how fast the client commits."""
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

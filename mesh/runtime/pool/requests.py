"""The requests in work of a virtual cluster: taken up, answered when their result comes, counted, and throttled.

A bug in a handler ends the connection whose request it was, loudly, and nothing else: it is logged with its traceback
and counted as a request that ended in UNKNOWN_SERVER_ERROR, which is never sent.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from mesh.apis import TABLE
from mesh.apis.api import Authentication, Context, Endpoint, HandlerEffect
from mesh.apis.dispatch import Work, begin
from mesh.listener.admission import Admission
from mesh.listener.audit import AuditLog
from mesh.listener.connection import DownstreamConnection
from mesh.pool.common.effects import Answer
from mesh.pool.common.results import CommitResult
from mesh.pool.core import PoolCore
from mesh.pool.state.fetch import Delivered, FetchResult
from mesh.runtime.pool.step_loop import StepLoop
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.response_errors import error_of
from mesh.wire.apis import ApiKey
from mesh.wire.connection import Request
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.messages import (
    OffsetCommitRequest,
    RequestMessage,
    ResponseMessage,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)

log = get_logger(__name__)

_AUTHENTICATION = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


@dataclass(frozen=True, slots=True)
class _InWork:
    connection: DownstreamConnection
    work: Work


class Requests:
    """endpoint: what clients are told to come to; may change. admission: tells how long a connection must rest after an
    answer."""

    def __init__(
        self, cluster: PoolCore, endpoint: Endpoint, metrics: Metrics, admission: Admission, steps: StepLoop
    ) -> None:
        self._cluster = cluster
        self.endpoint = endpoint
        self._metrics = metrics
        self._admission = admission
        self._step_loop = steps
        self._audit = AuditLog(cluster.name, metrics)
        self._served = {key: api.versions for key, api in TABLE.items()}
        self._in_work: dict[Request, _InWork] = {}

    def __len__(self) -> int:
        return len(self._in_work)

    def connection(self, request: Request) -> DownstreamConnection | None:
        """Whose it is, while it is in work."""
        in_work = self._in_work.get(request)
        return None if in_work is None else in_work.connection

    def work(self, connection: DownstreamConnection) -> None:
        """Let it take up its next request."""
        try:
            connection.work()
        except Exception:  # noqa: BLE001 - see the module
            self._failed(connection, connection.in_work)

    def forget(self, request: Request) -> None:
        """Its connection is gone."""
        self._in_work.pop(request, None)

    def handle(self, connection: DownstreamConnection, request: Request) -> None:
        """Raises ProtocolError, also for what may not be asked before the client has authenticated, or authenticated
        again. Such a request is not even decoded."""
        if request.api_key not in _AUTHENTICATION:
            reason = connection.session.refusal(self._step_loop.now())
            if reason is not None and (reason, request.api_key) != ("unauthenticated", ApiKey.API_VERSIONS):
                raise ProtocolError(reason, f"{request.api_key.name} needs an authentication first")
        message = request.decode()
        context = Context(
            self._cluster,
            self.endpoint,
            self._served,
            connection.id,
            request.client_id or "",
            connection.client_host,
            request.api_version,
            request,
            self._step_loop.now(),
            time.time(),
            connection.session,
            connection.access,
            connection.empty_answer,
        )
        violations = self._cluster.violations
        work, effects = begin(request.api_key, context, message)
        self._in_work[request] = _InWork(connection, work)
        for refusal in work.refusals:
            self._audit.refused(connection, request, refusal, self._step_loop.now())
        self._step_loop.carry_out(effects)
        if self._cluster.violations > violations and not any(_answers(effect, request) for effect in effects):
            connection.abort()  # what was to answer it is closed

    def answer(self, request: Request, result: object) -> None:
        """Nothing, if its connection is gone."""
        in_work = self._in_work.pop(request, None)
        if in_work is None:
            return
        work = in_work.work
        try:
            response, rest = self._throttled(in_work, work.respond(result), result)
            in_work.connection.answer(request, response)
            in_work.connection.rest(rest)
        except Exception:  # noqa: BLE001 - see the module
            self._failed(in_work.connection, request)
        else:
            self._count(work.request, result)
            self._metrics.request(
                self._cluster.name, request.api_key.name, error_of(response), self._step_loop.now() - work.context.now
            )

    def _throttled(self, in_work: _InWork, response: ResponseMessage, result: object) -> tuple[ResponseMessage, float]:
        """The answer, with the time that its connection must rest, as Kafka's quotas have it (KIP-219)."""
        if isinstance(result, FetchResult) and result.delivered is not None and result.delivered.is_new:
            return response, 0.0
        rest = self._admission.take(in_work.connection)
        if rest > 0:
            self._metrics.throttled(self._cluster.name, in_work.work.api_key.name)
            if not isinstance(response, SaslHandshakeResponse | SaslAuthenticateResponse):
                response = replace(response, throttle_time_ms=math.ceil(rest * 1000))
        return response, rest

    def _failed(self, connection: DownstreamConnection, request: Request | None) -> None:
        log.exception(
            "a connection was closed: kafka-mesh has a bug",
            virtual_cluster=self._cluster.name,
            connection=connection.id,
            client_host=connection.client_host,
            detail=repr(request),
        )
        if request is not None:
            self._metrics.request(self._cluster.name, request.api_key.name, ErrorCode.UNKNOWN_SERVER_ERROR, 0.0)
        connection.abort()

    def _count(self, message: RequestMessage, result: object) -> None:
        match result:
            case FetchResult(delivered=Delivered(group, topics, redelivered)):
                for topic, (records, size) in topics.items():
                    self._metrics.sent(self._cluster.name, group, topic, records, size)
                if redelivered:
                    self._metrics.redelivered(self._cluster.name, group, redelivered)
            case CommitResult(errors) if isinstance(message, OffsetCommitRequest):
                for error in errors.values():
                    self._metrics.committed(self._cluster.name, message.group_id, error)
            case _:
                pass


def _answers(effect: HandlerEffect, request: Request) -> bool:
    return isinstance(effect, Answer | Authentication) and effect.ticket is request

"""Requests that come in frames: authenticated first, guarded, counted and throttled, whatever the target.

A bug in a handler ends the connection whose request it was, loudly, and nothing else: it is logged with its traceback
and counted as a request that ended in UNKNOWN_SERVER_ERROR, which is never sent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from mesh.apis.answers import Answer
from mesh.apis.api import AnyApi, Authentication, ListenerContext, RequestContext, RequestFields
from mesh.apis.dispatch import Work, begin
from mesh.apis.listener_table import LISTENER_TABLE
from mesh.listener.client_transport import ClientTransport
from mesh.listener.listener import Listener
from mesh.telemetry.logs import get_logger
from mesh.telemetry.response_errors import error_of
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.connection import Request
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.features import Features
from mesh.wire.messages import (
    RequestMessage,
    ResponseMessage,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)

log = get_logger(__name__)

_AUTHENTICATION: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class FramedConnection(Protocol):
    """A connection whose requests are taken up one after the other. in_work: the one that is being answered."""

    in_work: PendingRequest | None

    @property
    def client(self) -> ClientTransport: ...

    def answer(self, request: Request, response: ResponseMessage | None) -> None:
        """None: leave it unanswered. Raises ValueError for a response that has no room for what it is to carry."""

    def served(self) -> Mapping[ApiKey, Versions] | None:
        """What ApiVersions lists; None for what is served by the handlers of the target and of its listener."""

    def features(self) -> Features:
        """What ApiVersions says of them."""


class Handler(Protocol):
    """What a target does with the requests that its listener does not answer itself."""

    @property
    def table(self) -> Mapping[ApiKey, AnyApi]: ...

    def context(self, pending: PendingRequest, fields: RequestFields) -> RequestContext: ...

    def carry_out(self, pending: PendingRequest, effects: Sequence[Any]) -> None:
        """What its handler returned."""

    def answer_early(self, pending: PendingRequest) -> None:
        """Answer it as soon as that can be, with what there is."""

    def count(self, message: RequestMessage, result: object) -> None:
        """The answer left: the target's own metrics."""

    def is_unthrottled(self, result: object) -> bool:
        """Whether it does not count against the quota of requests."""


class PendingRequest:
    """A request in work, and the ticket under which its result is given."""

    __slots__ = ("connection", "request", "work")

    def __init__(self, connection: FramedConnection, request: Request) -> None:
        self.connection: Final = connection
        self.request: Final = request
        self.work: Work | None = None


class Requests:
    """Takes up the requests of one listener's connections, and answers them."""

    def __init__(self, listener: Listener, handler: Handler) -> None:
        self._listener = listener
        self._handler = handler
        self._apis: Final = dict(sorted({**LISTENER_TABLE, **handler.table}.items()))
        self.served: Final[Mapping[ApiKey, Versions]] = {key: api.versions for key, api in self._apis.items()}

    def handle(self, connection: FramedConnection, request: Request) -> None:
        """Take it up. What may not be asked before the client has authenticated, or authenticated again, is not even
        decoded."""
        pending = connection.in_work = PendingRequest(connection, request)
        try:
            if request.api_key not in _AUTHENTICATION:
                reason = connection.client.session.refusal(self._listener.now())
                if reason is not None and (reason, request.api_key) != ("unauthenticated", ApiKey.API_VERSIONS):
                    raise ProtocolError(reason, f"{request.api_key.name} needs an authentication first")
            self._begin(pending)
        except ProtocolError as problem:
            connection.client.refuse(problem)
        except Exception:  # noqa: BLE001 - see the module
            self._failed(pending)

    def answer(self, pending: PendingRequest, result: object) -> None:
        """Nothing, if its connection is gone."""
        connection, request, work = pending.connection, pending.request, pending.work
        if connection.in_work is not pending or work is None:
            return
        connection.in_work = pending.work = None  # what is told to handlers names the request: no cycle may stay
        try:
            response, rest = self._throttled(pending, work.respond(result), result)
            if rest > 0:
                connection.client.rest(rest)  # before the next request is taken up
            connection.answer(request, response)
        except Exception:  # noqa: BLE001 - see the module
            self._failed(pending)
        else:
            self._handler.count(work.request, result)
            took = self._listener.now() - work.context.now
            error = ErrorCode.NONE if response is None else error_of(response)
            self._listener.metrics.request(self._listener.name, request.api_key.name, error, took)

    def _begin(self, pending: PendingRequest) -> None:
        client, request = pending.connection.client, pending.request
        message = request.decode()
        is_own = request.api_key in LISTENER_TABLE
        fields = (
            pending.connection.served() or self.served,
            client.id,
            request.client_id or "",
            client.client_host,
            request.api_version,
            pending,
            self._listener.now(),
            time.time(),
            client.session,
            client.access,
        )
        context: RequestContext
        if is_own:
            context = ListenerContext(*fields, pending.connection.features())
        else:
            context = self._handler.context(pending, fields)
        work, effects = begin(self._apis[request.api_key], context, message)
        pending.work = work
        for refusal in work.refusals:
            self._listener.audit.refused(client, request.api_key, request.client_id, refusal, self._listener.now())
        if is_own:
            self._carry_out(pending, effects)
        else:
            self._handler.carry_out(pending, effects)

    def _carry_out(self, pending: PendingRequest, effects: Sequence[Answer | Authentication]) -> None:
        for effect in effects:
            match effect:
                case Answer(_, result):
                    self.answer(pending, result)
                case Authentication(_, step):
                    self._listener.authenticator.carry_out(
                        pending.connection.client, step, lambda result: self.answer(pending, result)
                    )

    def answer_early(self, pending: PendingRequest) -> None:
        """Others wait behind it."""
        try:
            self._handler.answer_early(pending)
        except Exception:  # noqa: BLE001 - see the module
            self._failed(pending)

    def _throttled(
        self, pending: PendingRequest, response: ResponseMessage | None, result: object
    ) -> tuple[ResponseMessage | None, float]:
        """The answer, with the time that its connection must rest, as Kafka's quotas have it (KIP-219)."""
        if self._handler.is_unthrottled(result):
            return response, 0.0
        rest = self._listener.admission.take(pending.connection.client)
        if rest > 0:
            self._listener.metrics.throttled(self._listener.name, pending.request.api_key.name)
            if response is not None and not isinstance(response, SaslHandshakeResponse | SaslAuthenticateResponse):
                response = replace(response, throttle_time_ms=math.ceil(rest * 1000))
        return response, rest

    def _failed(self, pending: PendingRequest) -> None:
        pending.work = None
        client, request = pending.connection.client, pending.request
        log.exception(
            "a connection was closed: kafka-mesh has a bug",
            virtual_cluster=self._listener.name,
            connection=client.id,
            client_host=client.client_host,
            detail=repr(request),
        )
        name, failed = self._listener.name, ErrorCode.UNKNOWN_SERVER_ERROR
        self._listener.metrics.request(name, request.api_key.name, failed, 0.0)
        client.abort()

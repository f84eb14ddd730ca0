"""Requests that come in frames: they are authenticated, authorized, counted and throttled, for every kind of target.

A bug in a handler ends only the connection of the request. The bug is logged with its traceback, and counted as a
request that ended in UNKNOWN_SERVER_ERROR, an error that is never sent.
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
from mesh.wire.connection import FramedRequest
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
    """A connection whose requests are handled one after the other. current_request: the request that is being
    handled."""

    current_request: PendingRequest | None

    @property
    def client(self) -> ClientTransport: ...

    def answer(self, request: FramedRequest, response: ResponseMessage | None) -> None:
        """Sends a response; None leaves the request unanswered. Raises ValueError if the response cannot be encoded."""

    def served(self) -> Mapping[ApiKey, Versions] | None:
        """The APIs that ApiVersions lists; None for the APIs of the target's and the listener's handlers."""

    def features(self) -> Features:
        """The features that ApiVersions reports."""


class Handler(Protocol):
    """A target's handler for the requests that its listener does not answer itself."""

    @property
    def table(self) -> Mapping[ApiKey, AnyApi]: ...

    def context(self, pending: PendingRequest, fields: RequestFields) -> RequestContext: ...

    def carry_out(self, pending: PendingRequest, effects: Sequence[Any]) -> None:
        """Carries out the effects that the handler of the API returned."""

    def answer_early(self, pending: PendingRequest) -> None:
        """Answers a request as soon as possible, with the records that are ready."""

    def count(self, message: RequestMessage, result: object) -> None:
        """Counts a response that was sent, in the target's own metrics."""

    def is_unthrottled(self, result: object) -> bool:
        """True if the response does not count against the quota of requests."""


class PendingRequest:
    """A request that is being handled. It is also the ticket under which its result is given."""

    __slots__ = ("connection", "request", "work")

    def __init__(self, connection: FramedConnection, request: FramedRequest) -> None:
        self.connection: Final = connection
        self.request: Final = request
        self.work: Work | None = None


class Requests:
    """Handles the requests of one listener's connections, and answers them."""

    def __init__(self, listener: Listener, handler: Handler) -> None:
        self._listener = listener
        self._handler = handler
        self._apis: Final = dict(sorted({**LISTENER_TABLE, **handler.table}.items()))
        self.served: Final[Mapping[ApiKey, Versions]] = {key: api.versions for key, api in self._apis.items()}

    def replace(self, apis: Mapping[ApiKey, AnyApi]) -> None:
        """Replaces the APIs with the same keys, in the same versions."""
        self._apis.update(apis)

    def handle(self, connection: FramedConnection, request: FramedRequest) -> None:
        """Handles a request. A request that is not allowed before the authentication is not even decoded."""
        pending = connection.current_request = PendingRequest(connection, request)
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
        """Answers a request with this result; does nothing if the connection is gone."""
        connection, request, work = pending.connection, pending.request, pending.work
        if connection.current_request is not pending or work is None:
            return
        connection.current_request = pending.work = None  # break the cycle: the handler's report names the request
        try:
            answered = work.respond(result)
            for refusal in work.later_refusals:
                self._listener.audit.refused(
                    connection.client, request.api_key, request.client_id, refusal, self._listener.now()
                )
            response, throttle = self._throttle(pending, answered, result)
            if throttle > 0:
                connection.client.throttle(throttle)  # before the next request begins
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
            context = ListenerContext(*fields, pending.connection.features(), request.is_version_unknown)
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
        """Answers a request as soon as possible, since other requests wait behind it."""
        try:
            self._handler.answer_early(pending)
        except Exception:  # noqa: BLE001 - see the module
            self._failed(pending)

    def _throttle(
        self, pending: PendingRequest, response: ResponseMessage | None, result: object
    ) -> tuple[ResponseMessage | None, float]:
        """Returns the response, and the seconds for which its connection is throttled, as in Kafka's quotas
        (KIP-219)."""
        if self._handler.is_unthrottled(result):
            return response, 0.0
        throttle = self._listener.admission.charge_request(pending.connection.client)
        if throttle > 0:
            self._listener.metrics.throttled(self._listener.name, pending.request.api_key.name)
            if response is not None and not isinstance(response, SaslHandshakeResponse | SaslAuthenticateResponse):
                response = replace(response, throttle_time_ms=math.ceil(throttle * 1000))
        return response, throttle

    def _failed(self, pending: PendingRequest) -> None:
        pending.work = None
        client, request = pending.connection.client, pending.request
        log.exception("connection closed: bug in kafka-mesh", **client.log_fields, detail=repr(request))
        name, failed = self._listener.name, ErrorCode.UNKNOWN_SERVER_ERROR
        self._listener.metrics.request(name, request.api_key.name, failed, 0.0)
        client.abort()

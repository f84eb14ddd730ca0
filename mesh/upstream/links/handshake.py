"""The handshake of the mesh's own connections to brokers: TLS, SASL and versions, by the properties of the cluster."""

from __future__ import annotations

import asyncio
import math
import random
import secrets
import ssl
from collections.abc import Callable, Mapping
from typing import Final, cast

from mesh.security.client_properties import OAUTHBEARER, PLAIN, SCRAM
from mesh.security.oauthbearer_client import ACKNOWLEDGED, first_message, reason_in
from mesh.security.scram_client import ScramClient, ScramRefused
from mesh.tasks import OwnedTask, TaskName, no_buffer, report
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.links.logins import LoginOutcome
from mesh.upstream.problems import UpstreamProblem
from mesh.upstream.tokens.source import TokenSource, TokenUnavailable
from mesh.wire.client import messages
from mesh.wire.client.connection import ClientConnection, ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange
from mesh.wire.errors import ProtocolError

Allocate = Callable[[int], bytearray]
_NONCE_BYTES: Final = 24
CLOSED: Final = "the connection was closed here"
_SESSION: Final = (0.75, 0.9)
"""The part of a SASL session's lifetime after which a new connection is made."""


class Unreachable(Exception):
    """Raised when a broker cannot be reached, refuses the connection, does not answer, or does not speak Kafka's
    protocol. problem: the kind of problem, one of `CONNECTION`."""

    def __init__(self, reason: str, problem: UpstreamProblem = UpstreamProblem.UNREACHABLE) -> None:
        super().__init__(reason)
        self.problem = problem


class RequestConnection(asyncio.BufferedProtocol):
    """One connection for the mesh's own requests. If it fails, all requests in flight fail. ends_at: when its session
    should be replaced, in the loop's time. cluster: the cluster of the broker."""

    def __init__(self, client_id: str, allocate: Allocate, cluster: str = "") -> None:
        self._wire = ClientConnection(client_id, allocate)
        self._task: Final = OwnedTask(TaskName.LINK, cluster=cluster)
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[ClientRequest, asyncio.Future[ClientResponse]] = {}
        self._failure: Unreachable | None = None
        self._is_retired = False
        self.ends_at = math.inf
        self.versions: Mapping[int, VersionRange] = {}

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._failure is None

    def send(self, request: ClientRequest) -> asyncio.Future[ClientResponse]:
        """Sends a request, and returns the future of its response. A request that has no response gets an empty one at
        once."""
        future: asyncio.Future[ClientResponse] = asyncio.get_running_loop().create_future()
        if self._transport is None or self._failure is not None:
            future.set_exception(self._failure or Unreachable("the connection is closed"))
            return future
        if request.has_response:
            self._waiting[request] = future
        else:
            future.set_result(ClientResponse(request, memoryview(b""), 0))
        self._transport.writelines(self._wire.send(request))
        return future

    def retire(self) -> None:
        """Closes the connection when everything in flight is answered."""
        self._is_retired = True
        self._close_if_done()

    def fail(self, reason: str, problem: UpstreamProblem = UpstreamProblem.UNREACHABLE) -> None:
        """Closes the connection, and fails everything in flight."""
        if self._failure is None:
            self._failure = Unreachable(reason, problem)
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(Unreachable(reason, problem))
        if self._transport is not None:
            self._transport.abort()

    def hand_over(self, protocol: asyncio.BufferedProtocol) -> None:
        """Hands the transport over to another protocol. Nothing may be in flight."""
        transport, self._transport = self._transport, None
        if transport is None or self._failure is not None or self._waiting:
            raise self._failure or Unreachable(CLOSED)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from asyncio.Transport

    def get_buffer(self, sizehint: int) -> memoryview:
        try:
            return self._wire.buffer()
        except BaseException as problem:
            raise no_buffer(self._failed, problem) from problem

    def buffer_updated(self, nbytes: int) -> None:
        try:
            response = self._wire.received(nbytes)
            if response is not None:
                future = self._waiting.pop(response.request, None)
                if future is not None and not future.done():
                    future.set_result(response)
                self._close_if_done()
        except ProtocolError as problem:
            self.fail(str(problem))
        except BaseException as problem:  # noqa: BLE001 - uvloop would close the connection, and report nothing
            self._failed(problem)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        # With TLS 1.3 a broker refuses a certificate after the handshake, by an alert.
        reason = f"the connection was closed: {exc}" if exc else "the broker closed the connection"
        self.fail(reason, _problem_of(exc))

    def _failed(self, problem: BaseException) -> None:
        self.fail(f"kafka-mesh failed: {problem!r}")
        report(self._task, problem)

    def _close_if_done(self) -> None:
        if self._is_retired and not self._waiting:
            self.fail(CLOSED)


async def connect(
    host: str, port: int, settings: ConnectionSettings, allocate: Allocate = bytearray, *, is_bare: bool = False
) -> RequestConnection:
    """Returns a usable connection. is_bare: connect with TLS only, without ApiVersions or authentication. Raises
    Unreachable."""
    connection = RequestConnection(settings.client_id, allocate, settings.cluster)
    reason, problem = CLOSED, UpstreamProblem.UNREACHABLE
    try:
        async with asyncio.timeout(settings.setup_timeout):
            await asyncio.get_running_loop().create_connection(
                lambda: connection,
                host,
                port,
                ssl=settings.tls.context if settings.tls is not None else None,
                server_hostname=host if settings.tls is not None else None,
                family=settings.family,
            )
            if not is_bare:
                await _prepare(connection, settings)
            reason = ""
    except TimeoutError:
        reason = f"no connection within {settings.setup_timeout:g} s"
    # SSLError is an OSError. An invalid host name is a ValueError, a port beyond 65535 an OverflowError.
    except (OSError, ValueError, OverflowError, ProtocolError, ScramRefused, TokenUnavailable) as failure:
        reason, problem = str(failure) or repr(failure), _problem_of(failure)
    except Unreachable as failure:
        reason, problem = str(failure), failure.problem
    finally:
        if reason:
            connection.fail(reason)
    if reason or not is_bare:
        now = asyncio.get_running_loop().time()
        settings.logins.note((host, port), LoginOutcome(now, problem, reason) if reason else LoginOutcome(now))
    if reason:
        raise Unreachable(reason, problem)
    return connection


def _problem_of(failure: Exception | None) -> UpstreamProblem:
    match failure:
        case ScramRefused() | TokenUnavailable():
            return UpstreamProblem.CREDENTIALS
        case ssl.SSLError() if not isinstance(failure, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return UpstreamProblem.ENCRYPTION
        case _:
            return UpstreamProblem.UNREACHABLE


async def _prepare(connection: RequestConnection, settings: ConnectionSettings) -> None:
    answer = await connection.send(messages.api_versions_request())
    connection.versions = messages.decode_api_versions(answer)
    if settings.mechanism is not None:
        await _authenticate(connection, settings, settings.mechanism)


async def _authenticate(connection: RequestConnection, settings: ConnectionSettings, mechanism: str) -> None:
    answer = await connection.send(messages.sasl_handshake_request(mechanism))
    error, known = messages.decode_sasl_handshake(answer)
    if error:
        reason = f"the broker does not know the SASL mechanism {mechanism}; it has {', '.join(known)}"
        raise Unreachable(reason, UpstreamProblem.CREDENTIALS)
    name, password = settings.login.username, settings.login.password
    if mechanism == PLAIN:
        await _send_token(connection, f"\0{name}\0{password}".encode())
        return
    if mechanism == OAUTHBEARER:
        assert settings.tokens is not None, "the properties were checked"
        await _authenticate_by_token(connection, settings.tokens)
        return
    client = ScramClient(SCRAM[mechanism], name, password, secrets.token_urlsafe(_NONCE_BYTES))
    challenge = await _send_token(connection, client.first())
    proof = await asyncio.to_thread(client.final, challenge)
    client.check(await _send_token(connection, proof))


async def _authenticate_by_token(connection: RequestConnection, tokens: TokenSource) -> None:
    token = await asyncio.wrap_future(tokens.request())
    try:
        challenge = await _send_token(connection, first_message(token))
        if challenge:  # RFC 7628, 3.2.2: the client acknowledges the error before the server fails
            await _send_token(connection, ACKNOWLEDGED)
            reason = f"SASL authentication was refused: {reason_in(challenge)}"
            raise Unreachable(reason, UpstreamProblem.CREDENTIALS)
    except Unreachable:
        tokens.refused(token)
        raise


async def _send_token(connection: RequestConnection, token: bytes) -> bytes:
    served = connection.versions.get(messages.SASL_AUTHENTICATE)
    request = messages.sasl_authenticate_request(token, min(served.highest if served else 0, 1))
    answer = messages.decode_sasl_authenticate(await connection.send(request))
    if answer.error_code:
        reason = f"SASL authentication was refused: {answer.message or f'error {answer.error_code}'}"
        raise Unreachable(reason, UpstreamProblem.CREDENTIALS)
    if answer.lifetime_ms > 0:
        part = random.uniform(*_SESSION)
        connection.ends_at = asyncio.get_running_loop().time() + part * answer.lifetime_ms / 1_000
    return answer.token

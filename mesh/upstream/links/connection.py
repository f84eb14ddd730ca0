"""Our own connections to upstream brokers, which carry any request: an asyncio protocol around `mesh.wire.client`.

`BrokerLink` is what callers use; which brokers there are is known to `mesh.upstream.links.nodes.Nodes`.
"""

from __future__ import annotations

import asyncio
import math
import random
import secrets
from collections.abc import Callable, Mapping
from typing import Final, cast

from mesh.security.client_properties import PLAIN, SCRAM
from mesh.security.scram_client import ScramClient, ScramRefused
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.wire.client import messages
from mesh.wire.client.connection import ClientConnection, ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange
from mesh.wire.errors import ProtocolError

Allocate = Callable[[int], bytearray]
_NONCE_BYTES: Final = 24
_CLOSED: Final = "the connection was closed here"
_JITTER: Final = 0.2
"""So that many links that failed together do not come back together."""
_SESSION: Final = (0.75, 0.9)
"""The part of a SASL session's lifetime after which another connection is made."""


class Unreachable(Exception):
    """A broker cannot be reached, refuses us, does not answer, or answers what is not Kafka's protocol."""


class _Protocol(asyncio.BufferedProtocol):
    """One connection. Everything under way fails with it. ends_at: when its session had better not be used any more, in
    the loop's time."""

    def __init__(self, client_id: str, allocate: Allocate) -> None:
        self._wire = ClientConnection(client_id, allocate)
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
        future: asyncio.Future[ClientResponse] = asyncio.get_running_loop().create_future()
        if self._transport is None or self._failure is not None:
            future.set_exception(self._failure or Unreachable("the connection is closed"))
            return future
        self._waiting[request] = future
        self._transport.writelines(self._wire.send(request))
        return future

    def retire(self) -> None:
        """Close when what is under way is answered."""
        self._is_retired = True
        self._close_if_done()

    def fail(self, reason: str) -> None:
        """Close, and tell everybody who waits."""
        if self._failure is None:
            self._failure = Unreachable(reason)
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(Unreachable(reason))
        if self._transport is not None:
            self._transport.abort()

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._wire.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            response = self._wire.received(nbytes)
        except ProtocolError as problem:
            self.fail(str(problem))
            return
        if response is not None:
            future = self._waiting.pop(response.request, None)
            if future is not None and not future.done():
                future.set_result(response)
            self._close_if_done()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(f"the connection was closed: {exc}" if exc else "the broker closed the connection")
        self._transport = None

    def _close_if_done(self) -> None:
        if self._is_retired and not self._waiting:
            self.fail(_CLOSED)


class BrokerLink:
    """One broker, and at most one connection to it, which carries any request.

    * It connects when something is to be sent: TLS and SASL as the cluster's properties ask for, then the versions that
      the broker serves. Whoever waits for a connection shares the attempt, and its failure.
    * Requests are pipelined, and answered in their order. One that is not answered in time takes the connection with
      it, since all behind it would wait as well; everything under way then fails with `Unreachable`, and nothing is
      sent twice by itself. A response that was not asked for, or is longer than `MAX_RESPONSE_BYTES`, does the same.
    * After a failure the next attempt waits, longer each time, up to `most_backoff`, until a request was answered.
    * Before a SASL session ends (KIP-368) new requests go over another connection, and the old one is closed when its
      last answer is there.

    Responses are whole frames in buffers that `allocate` gives, valid for as long as somebody holds on to them.
    """

    def __init__(self, host: str, port: int, access: ConnectionSettings, allocate: Allocate = bytearray) -> None:
        self.address: Final = f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"
        self._host = host
        self._port = port
        self._access = access
        self._allocate = allocate
        self._connection: _Protocol | None = None
        self._attempt: asyncio.Task[_Protocol] | None = None
        self._backoff = 0.0
        self._closed = False

    async def versions(self) -> Mapping[int, VersionRange]:
        """What the broker serves, by API key. Raises Unreachable."""
        return (await self._connected()).versions

    async def request(self, request: ClientRequest, waits: float = 0.0) -> ClientResponse:
        """waits: seconds for which the broker is asked to hold back its answer. Raises Unreachable."""
        connection = await self._connected()
        return await self._answered(connection, request, self._access.request_timeout + waits)

    def close(self) -> None:
        """For good; what is under way fails."""
        self._closed = True
        if self._attempt is not None:
            self._attempt.cancel()
        if self._connection is not None:
            self._connection.fail(_CLOSED)

    async def _answered(self, connection: _Protocol, request: ClientRequest, seconds: float) -> ClientResponse:
        try:
            async with asyncio.timeout(seconds):
                response = await connection.send(request)
        except TimeoutError:
            reason = f"no answer within {seconds:g} s"
            connection.fail(reason)
            raise Unreachable(reason) from None
        self._backoff = 0.0
        return response

    async def _connected(self) -> _Protocol:
        loop = asyncio.get_running_loop()
        if (connection := self._connection) is not None and connection.is_open:
            if loop.time() < connection.ends_at:
                return connection
            connection.retire()
            self._connection = None
        if self._closed:
            raise Unreachable(_CLOSED)
        if (attempt := self._attempt) is None:
            attempt = self._attempt = loop.create_task(self._connect_in_time(), name=f"connect to {self.address}")
            attempt.add_done_callback(self._attempted)
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            waiter = asyncio.current_task()
            if attempt.cancelled() and not (waiter is not None and waiter.cancelling()):
                raise Unreachable(_CLOSED) from None  # by `close`, and not whoever waits here
            raise

    def _attempted(self, attempt: asyncio.Task[_Protocol]) -> None:
        self._attempt = None
        if attempt.cancelled() or attempt.exception() is not None:
            return
        self._connection = attempt.result()

    async def _connect_in_time(self) -> _Protocol:
        await asyncio.sleep(self._backoff * random.uniform(1 - _JITTER, 1))
        self._backoff = min(max(self._backoff * 2, self._access.backoff), self._access.most_backoff)
        return await self._connect()

    async def _connect(self) -> _Protocol:
        access = self._access
        connection = _Protocol(access.client_id, self._allocate)
        reason = _CLOSED
        try:
            async with asyncio.timeout(access.setup_timeout):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection,
                    self._host,
                    self._port,
                    ssl=access.tls,
                    server_hostname=self._host if access.tls is not None else None,
                    family=access.family,
                )
                answer = await connection.send(messages.api_versions_request())
                connection.versions = messages.decode_api_versions(answer)
                if access.mechanism is not None:
                    await self._authenticate(connection, access.mechanism)
                reason = ""
        except TimeoutError:
            reason = f"no connection within {access.setup_timeout:g} s"
        except (OSError, ProtocolError, ScramRefused) as problem:  # SSLError is an OSError
            reason = str(problem) or repr(problem)
        except Unreachable as problem:
            reason = str(problem)
        finally:
            if reason:
                connection.fail(reason)
        if reason:
            raise Unreachable(reason)
        return connection

    async def _authenticate(self, connection: _Protocol, mechanism: str) -> None:
        answer = await connection.send(messages.sasl_handshake_request(mechanism))
        error, known = messages.decode_sasl_handshake(answer)
        if error:
            raise Unreachable(f"the broker does not know the SASL mechanism {mechanism}; it has {', '.join(known)}")
        name, password = self._access.username, self._access.password
        if mechanism == PLAIN:
            await self._token(connection, f"\0{name}\0{password}".encode())
            return
        client = ScramClient(SCRAM[mechanism], name, password, secrets.token_urlsafe(_NONCE_BYTES))
        challenge = await self._token(connection, client.first())
        proof = await asyncio.to_thread(client.final, challenge)
        client.check(await self._token(connection, proof))

    async def _token(self, connection: _Protocol, token: bytes) -> bytes:
        served = connection.versions.get(messages.SASL_AUTHENTICATE)
        request = messages.sasl_authenticate_request(token, min(served.highest if served else 0, 1))
        answer = messages.decode_sasl_authenticate(await connection.send(request))
        if answer.error_code:
            raise Unreachable(f"SASL authentication was refused: {answer.message or f'error {answer.error_code}'}")
        if answer.lifetime_ms > 0:
            part = random.uniform(*_SESSION)
            connection.ends_at = asyncio.get_running_loop().time() + part * answer.lifetime_ms / 1_000
        return answer.token

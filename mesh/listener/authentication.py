"""Carries out the steps of authentications: threads for what is slow, a delay before a failure is told, log, counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from mesh.apis.api import Authentication
from mesh.listener.peer import Peer
from mesh.security.sasl import Challenge, Failure, Slow, Success
from mesh.security.session import Handshake, Lasting
from mesh.telemetry.log_rate import LogRate
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metrics import Metrics
from mesh.wire.connection import Request

log = get_logger(__name__)

MOST_CHECKS: Final = 200
"""Passwords that may wait to be checked; the connection of who comes then is closed, and it comes again."""
CHECKING_THREADS: Final = 2
FAILURE_DELAY: Final = 0.1
"""Seconds before a client learns that it failed: Kafka's connection.failed.authentication.delay.ms."""

Respond = Callable[[Request, object], None]


class Authenticator:
    """One for a virtual cluster. respond: answers a request with a result."""

    def __init__(self, virtual_cluster: str, metrics: Metrics, respond: Respond) -> None:
        self._virtual_cluster = virtual_cluster
        self._metrics = metrics
        self._respond = respond
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(CHECKING_THREADS, thread_name_prefix="password-check")
        self._checks = 0
        self._rate = LogRate()

    def carry_out(self, connection: Peer, effect: Authentication) -> None:
        """A step that the handler of a request took."""
        assert isinstance(effect.ticket, Request)
        self._take(connection, effect.ticket, effect.step)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _take(self, connection: Peer, request: Request, step: object) -> None:
        match step:
            case Slow(check) if self._checks < MOST_CHECKS:
                self._checks += 1
                checked = self._threads.submit(check)
                checked.add_done_callback(lambda future: self._soon(connection, request, future))
            case Slow():
                self._take(connection, request, Failure("busy"))
            case Failure(reason="busy"):
                # Java's clients give up for good when they are told that they failed, and come again when closed.
                self._tell(connection, step)
                connection.abort()
            case Failure():
                self._fail(connection, request, step)
            case Handshake.UNSUPPORTED_MECHANISM | Handshake.UNSUPPORTED_VERSION:
                reason = step.name.lower()
                self._metrics.authentication(self._virtual_cluster, "other", reason)
                self._end(connection, request, step)
            case Lasting():
                self._succeed(connection, request, step)
            case Challenge(failure=Failure() as failure):
                # Some clients do not wait for what follows: this is the time to tell of it.
                self._tell(connection, failure)
                self._respond(request, step)
            case _:
                assert isinstance(step, Challenge | Handshake | str)
                self._respond(request, step)

    def _soon(self, connection: Peer, request: Request, future: Future[Success | Failure]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._checked, connection, request, future)

    def _checked(self, connection: Peer, request: Request, future: Future[Success | Failure]) -> None:
        self._checks -= 1
        if future.cancelled() or connection.in_work is not request:
            return  # it has closed meanwhile
        step = connection.session.settle(future.result(), self._loop.time(), time.time())
        self._take(connection, request, step)

    def _succeed(self, connection: Peer, request: Request, step: Lasting) -> None:
        result = "reauthenticated" if step.is_again else "success"
        self._metrics.authentication(self._virtual_cluster, _mechanism(connection), result)
        connection.established()
        log.debug(
            "a client authenticated",
            virtual_cluster=self._virtual_cluster,
            connection=connection.id,
            principal=step.principal,
            mechanism=_mechanism(connection),
        )
        self._respond(request, step)

    def _fail(self, connection: Peer, request: Request, failure: Failure) -> None:
        if not failure.is_known:
            self._tell(connection, failure)
        self._loop.call_later(FAILURE_DELAY, self._end, connection, request, failure)

    def _tell(self, connection: Peer, failure: Failure) -> None:
        self._metrics.authentication(self._virtual_cluster, _mechanism(connection), failure.reason)
        left_out = self._rate.admit(self._loop.time())
        if left_out is not None:
            log.warning(
                "an authentication failed",
                virtual_cluster=self._virtual_cluster,
                connection=connection.id,
                client_host=connection.client_host,
                mechanism=_mechanism(connection),
                claimed=failure.name[:200],
                reason=failure.reason,
                detail=failure.detail[:200],
                left_out=left_out,
            )

    def _end(self, connection: Peer, request: Request, result: object) -> None:
        """Answer, and close once that is sent."""
        if connection.in_work is request:
            self._respond(request, result)
            connection.close()


def _mechanism(connection: Peer) -> str:
    mechanism = connection.session.mechanism
    return mechanism.value if mechanism is not None else "none"

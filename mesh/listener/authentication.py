"""Carries out the steps of authentications: runs slow ones in threads, delays failures, logs and counts."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from mesh.listener.limits import network_of
from mesh.listener.peer import Peer
from mesh.security.sasl import Challenge, Failure, Slow, Success
from mesh.security.session import Authenticated, AuthenticationResult, Handshake
from mesh.tasks import OwnedTask, TaskName, guarded, report
from mesh.telemetry.log_rate import LogRate
from mesh.telemetry.logs import get_logger
from mesh.telemetry.metrics import Metrics

log = get_logger(__name__)

MOST_CHECKS: Final = 200
"""The most passwords that may wait for a check. Above it a connection is closed, and the client tries again. One
address gets no more checks than it leaves to others, so a client that guesses does not lock out other addresses."""
CHECKING_THREADS: Final = 2
FAILURE_DELAY: Final = 0.1
"""Seconds before a client learns of a failed authentication: Kafka's connection.failed.authentication.delay.ms."""

Respond = Callable[[object], None]
"""Answers the request that carried a step, if its connection still exists."""


class Authenticator:
    """Carries out the steps of all connections of one virtual cluster."""

    def __init__(self, virtual_cluster: str, metrics: Metrics) -> None:
        self._virtual_cluster = virtual_cluster
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(CHECKING_THREADS, thread_name_prefix="password-check")
        self._checks: Counter[str] = Counter()
        """Passwords that wait for a check, by network."""
        self._rate = LogRate()

    def carry_out(self, connection: Peer, step: Handshake | AuthenticationResult, respond: Respond) -> None:
        """Carries out a step that the handler of a request has returned."""
        self._take(connection, step, respond)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _take(self, connection: Peer, step: object, respond: Respond) -> None:
        match step:
            case Slow(check) if self._has_room(network_of(connection.client_host)):
                checked = self._threads.submit(check)
                self._checks[network_of(connection.client_host)] += 1
                checked.add_done_callback(lambda future: self._schedule_checked(connection, respond, future))
            case Slow():
                self._take(connection, Failure("busy"), respond)
            case Failure(reason="busy"):
                # Java clients give up for good when they get an authentication error, and retry when the connection
                # closes.
                self._log_failure(connection, step)
                connection.abort()
            case Failure():
                self._fail(connection, step, respond)
            case Handshake.UNSUPPORTED_MECHANISM | Handshake.UNSUPPORTED_VERSION:
                reason = step.name.lower()
                self._metrics.authentication(self._virtual_cluster, "other", reason)
                self._end(connection, step, respond)
            case Authenticated():
                self._succeed(connection, step, respond)
            case Challenge(failure=Failure() as failure):
                # Some clients do not wait for an answer, so report the failure now.
                self._log_failure(connection, failure)
                respond(step)
            case _:
                assert isinstance(step, Challenge | Handshake | str)
                respond(step)

    def _has_room(self, network: str) -> bool:
        return self._checks[network] < MOST_CHECKS - self._checks.total()

    def _schedule_checked(self, connection: Peer, respond: Respond, future: Future[Success | Failure]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._checked, connection, respond, future)

    def _checked(self, connection: Peer, respond: Respond, future: Future[Success | Failure]) -> None:
        network = network_of(connection.client_host)
        self._checks[network] -= 1
        if not self._checks[network]:
            del self._checks[network]
        if future.cancelled() or not connection.is_open:
            return  # the client has disconnected in the meantime
        try:
            step = connection.session.settle(future.result(), self._loop.time(), time.time())
            self._take(connection, step, respond)
        except BaseException as problem:  # noqa: BLE001 - the client would wait for an answer
            report(OwnedTask(TaskName.AUTHENTICATION, self._virtual_cluster), problem)
            connection.abort()

    def _succeed(self, connection: Peer, step: Authenticated, respond: Respond) -> None:
        result = "reauthenticated" if step.is_again else "success"
        self._metrics.authentication(self._virtual_cluster, _mechanism(connection), result)
        connection.established()
        log.debug(
            "client authenticated",
            virtual_cluster=self._virtual_cluster,
            connection=connection.id,
            principal=step.principal,
            mechanism=_mechanism(connection),
        )
        respond(step)

    def _fail(self, connection: Peer, failure: Failure, respond: Respond) -> None:
        if not failure.is_known:
            self._log_failure(connection, failure)
        end = guarded(OwnedTask(TaskName.AUTHENTICATION, self._virtual_cluster), self._end, connection.abort)
        self._loop.call_later(FAILURE_DELAY, end, connection, failure, respond)

    def _log_failure(self, connection: Peer, failure: Failure) -> None:
        self._metrics.authentication(self._virtual_cluster, _mechanism(connection), failure.reason)
        left_out = self._rate.admit(self._loop.time())
        if left_out is not None:
            log.warning(
                "authentication failed",
                virtual_cluster=self._virtual_cluster,
                connection=connection.id,
                client_host=connection.client_host,
                mechanism=_mechanism(connection),
                claimed=failure.name[:200],
                reason=failure.reason,
                detail=failure.detail[:200],
                left_out=left_out,
            )

    def _end(self, connection: Peer, result: object, respond: Respond) -> None:
        """Sends the response, and closes the connection when it is sent."""
        if connection.is_open:
            connection.stop_serving()
            respond(result)
            connection.close()


def _mechanism(connection: Peer) -> str:
    mechanism = connection.session.mechanism
    return mechanism.value if mechanism is not None else "none"

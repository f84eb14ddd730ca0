"""Interceptors on the way of a client's connection: they stand between its transport and what carries its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from mesh.interceptors.spi import On
from mesh.listener.client_transport import ClientTransport
from mesh.runtime.interception.client import InterceptedClient, Interceptors
from mesh.runtime.interception.fetches import FetchRequests
from mesh.runtime.interception.produces import ProduceRequests
from mesh.security.rules import Operation, ResourceType
from mesh.telemetry.logs import get_logger
from mesh.wire.errors import ProtocolError
from mesh.wire.interception import AnswerChange, Decision, FollowUp, InterceptedFrames
from mesh.wire.messages import Buffer
from mesh.wire.passing import RequestHead
from mesh.wire.relayed_apis import RELAYED_APIS

log = get_logger(__name__)


class InterceptedConnection(Protocol):
    """The connection that carries a client's requests."""

    def pass_on(self, requests: Sequence[Buffer]) -> None: ...

    def send(self, answers: Sequence[Buffer]) -> None: ...

    def decided(self) -> None:
        """Something goes on that was held up."""

    def interception_ended(self, problem: ProtocolError | None) -> None:
        """The connection has to be closed. problem: of what its client sent; None: of something else."""


class NoInterception:
    """Stands in place of an Interception where there are no interceptors: nothing is ever held up."""

    is_holding: Final = False
    is_holding_answer: Final = False
    has_waiting_requests: Final = False
    has_unfinished_frame: Final = False

    def close(self) -> None:
        """Nothing is kept."""


NO_INTERCEPTION: Final = NoInterception()


class TakenRequests(Protocol):
    """What has a say in requests of some APIs."""

    def takes(self, head: RequestHead) -> bool:
        """Whether it wants to see this one, in a version that is known."""

    def decide(self, head: RequestHead, frame: memoryview) -> Decision | None:
        """What becomes of a request; None: `judged` says. Raises ProtocolError."""

    async def judged(self, head: RequestHead, frame: memoryview) -> Decision:
        """Raises ProtocolError."""


class Interception:
    """The interceptors of a virtual cluster, on the way of one client's connection, and what else has a say in its
    requests.

    interceptors: None if there are none. others: asked in this order. may_look: whether the client is authenticated;
    nothing is kept before. limit: bytes of the largest request.
    """

    def __init__(
        self,
        connection: InterceptedConnection,
        interceptors: Interceptors | None,
        transport: ClientTransport,
        may_look: Callable[[], bool],
        limit: Callable[[], int],
        others: Sequence[TakenRequests] = (),
    ) -> None:
        self._connection: InterceptedConnection | None = connection
        self._takers: Final = [*others]
        if interceptors is not None:
            client = InterceptedClient(
                interceptors,
                lambda: transport.session.principal,
                lambda topic: transport.access.allows(Operation.WRITE, ResourceType.TOPIC, topic),
            )
            if On.PRODUCE in interceptors.selection.sides:
                self._takers.append(ProduceRequests(client))
            if On.FETCH in interceptors.selection.sides:
                self._takers.append(FetchRequests(client, asyncio.get_running_loop().time))
        self._may_look: Final = may_look
        self._taker: TakenRequests | None = None
        self._frames: Final = InterceptedFrames(self._is_taken, limit)
        self._deciding: asyncio.Task[None] | None = None
        self._seeing: asyncio.Task[None] | None = None
        self._is_carrying_out = False

    @property
    def is_holding(self) -> bool:
        """Whether a request or an answer waits for an interceptor."""
        return self._frames.is_holding

    @property
    def is_holding_answer(self) -> bool:
        return self._frames.unseen is not None

    @property
    def has_waiting_requests(self) -> bool:
        return self._frames.has_waiting_requests

    @property
    def has_unfinished_frame(self) -> bool:
        return self._frames.has_unfinished_frame

    def requests(self, chunk: memoryview) -> None:
        """Bytes that the client has sent."""
        self._frames.receive_requests(chunk)
        self._carry_out()

    def answers(self, buffers: Sequence[Buffer]) -> None:
        """What the client would be sent. Raises ProtocolError for what is no answer to anything."""
        self._frames.receive_answers(buffers)
        self._carry_out()

    def close(self) -> None:
        self._connection = None
        for task in (self._deciding, self._seeing):
            if task is not None:
                task.cancel()
        self._deciding = self._seeing = None

    # How

    def _is_taken(self, head: RequestHead) -> bool:
        """Asked once for each; no other one is taken before it is decided."""
        self._taker = self._taker_of(head)
        return self._taker is not None

    def _taker_of(self, head: RequestHead) -> TakenRequests | None:
        """None also for a version that is not known: what carries it on refuses it."""
        versions = RELAYED_APIS.get(head.api_key)  # type: ignore[call-overload]  # an IntEnum's member equals its number
        if versions is None or not versions.lowest <= head.api_version <= versions.highest:
            return None
        taker = next((each for each in self._takers if each.takes(head)), None)
        return taker if taker is not None and self._may_look() else None

    def _carry_out(self) -> None:
        if self._is_carrying_out:
            return  # the call that is at work goes on with it
        self._is_carrying_out = True
        try:
            while (connection := self._connection) is not None and self._step(connection):
                pass
            if (connection := self._connection) is not None and self._frames.problem is not None:
                connection.interception_ended(self._frames.problem)
        finally:
            self._is_carrying_out = False

    def _step(self, connection: InterceptedConnection) -> bool:
        """Whether something has gone on."""
        frames = self._frames
        sent, frames.sent = frames.sent, []
        passed, frames.passed = frames.passed, []
        if sent:
            connection.send(sent)
        if passed:
            connection.pass_on(passed)
        is_moving = bool(sent or passed)
        if frames.undecided is not None and self._deciding is None:
            is_moving |= self._decide(connection, *frames.undecided)
        if frames.unseen is not None and self._seeing is None and self._connection is not None:
            seeing = self._see(*frames.unseen)
            self._seeing = asyncio.get_running_loop().create_task(seeing, name="intercept an answer")
        return is_moving

    def _decide(self, connection: InterceptedConnection, head: RequestHead, frame: memoryview) -> bool:
        requests = self._taker
        assert requests is not None, "it was taken"
        try:
            decision = requests.decide(head, frame)
        except ProtocolError as problem:
            connection.interception_ended(problem)
            return False
        except Exception:
            log.exception("a connection was closed: kafka-mesh has a bug, or a router in front")
            connection.interception_ended(None)
            return False
        if decision is None:
            deciding = self._decide_later(requests, head, frame)
            self._deciding = asyncio.get_running_loop().create_task(deciding, name="intercept a request")
            return False
        self._frames.decide(decision)
        self._frames.go_on()
        return True

    async def _decide_later(self, requests: TakenRequests, head: RequestHead, frame: memoryview) -> None:
        decision: Decision | None = None
        try:
            decision = await requests.judged(head, frame)
        except ProtocolError as problem:
            self._end(problem)
        except Exception:
            log.exception("a connection was closed: kafka-mesh has a bug")
            self._end(None)
        self._deciding = None
        if decision is not None and self._connection is not None:
            self._frames.decide(decision)
            self._frames.go_on()
            self._went_on()

    async def _see(self, change: AnswerChange, answer: memoryview) -> None:
        changed: Sequence[Buffer] | FollowUp | None = None
        try:
            changed = await change.changed(answer)
        except Exception:
            log.exception("a connection was closed: an answer could not be read, or kafka-mesh has a bug")
            self._end(None)
        self._seeing = None
        if changed is None or self._connection is None:
            return
        try:
            self._frames.see(changed)
        except ProtocolError:
            log.exception("a connection was closed: an answer could not be read, or kafka-mesh has a bug")
            self._end(None)
            return
        self._went_on()

    def _went_on(self) -> None:
        self._carry_out()
        if self._connection is not None:
            self._connection.decided()

    def _end(self, problem: ProtocolError | None) -> None:
        if self._connection is not None:
            self._connection.interception_ended(problem)


def interception_of(
    connection: InterceptedConnection,
    interceptors: Interceptors | None,
    transport: ClientTransport,
    may_look: Callable[[], bool],
    limit: Callable[[], int],
    others: Sequence[TakenRequests] = (),
) -> Interception | NoInterception:
    """See `Interception`."""
    if interceptors is None and not others:
        return NO_INTERCEPTION
    return Interception(connection, interceptors, transport, may_look, limit, others)

"""Interception of a client's requests and responses, between its transport and the connection that carries them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from mesh.interceptors.spi import On
from mesh.listener.client_transport import ClientTransport
from mesh.runtime.interception.client import InterceptedClient, Interceptors
from mesh.runtime.interception.fetches import FetchRequests
from mesh.runtime.interception.produces import ProduceRequests
from mesh.security.rules import Operation, ResourceType
from mesh.tasks import OwnedTask, Run, TaskName, begin
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
        """Called when a request or a response that was held up may continue."""

    def interception_ended(self, problem: ProtocolError | None) -> None:
        """Closes the connection. problem: an error in the client's bytes; None for another reason."""


class NoInterception:
    """A stand-in for `Interception` without interceptors: nothing is ever held up."""

    is_holding: Final = False
    is_holding_answer: Final = False
    has_waiting_requests: Final = False
    has_unfinished_frame: Final = False

    def close(self) -> None:
        """Does nothing."""


NO_INTERCEPTION: Final = NoInterception()


class InterceptionHandler(Protocol):
    """A part that handles the requests of some APIs."""

    def handles(self, head: RequestHead) -> bool:
        """True if this part handles the request. The caller has checked that its version is known."""

    def decide(self, head: RequestHead, frame: memoryview) -> Decision | None:
        """Decides on a request; None if only `decide_later` can. Raises ProtocolError."""

    async def decide_later(self, head: RequestHead, frame: memoryview) -> Decision:
        """Decides on a request that `decide` has left undecided. Raises ProtocolError."""


class Interception:
    """The interceptors of a virtual cluster in one client's connection, with other parts that handle its requests.

    interceptors: None if there are none. others: asked in this order, before the interceptors. is_authenticated:
    returns whether the client is authenticated, or need not be. None if only the broker knows. If it returns False, a
    request passes without being examined, and the code that passes the request on refuses it. largest_request: returns
    the size of the largest request in bytes.
    """

    def __init__(
        self,
        connection: InterceptedConnection,
        interceptors: Interceptors | None,
        transport: ClientTransport,
        is_authenticated: Callable[[], bool | None],
        largest_request: Callable[[], int],
        others: Sequence[InterceptionHandler] = (),
    ) -> None:
        self._connection: InterceptedConnection | None = connection
        self._transport: Final = transport
        self._handlers: Final = [*others]
        if interceptors is not None:
            client = InterceptedClient(
                interceptors,
                lambda: transport.session.principal,
                lambda topic: transport.access.allows(Operation.WRITE, ResourceType.TOPIC, topic),
            )
            if On.PRODUCE in interceptors.selection.sides:
                self._handlers.append(ProduceRequests(client))
            if On.FETCH in interceptors.selection.sides:
                self._handlers.append(FetchRequests(client, asyncio.get_running_loop().time))
        self._is_authenticated: Final = is_authenticated
        self._handler: InterceptionHandler | None = None
        self._frames: Final = InterceptedFrames(self._choose_handler, largest_request)
        self._deciding: asyncio.Task[None] | None = None
        self._seeing: asyncio.Task[None] | None = None
        self._is_carrying_out = False

    @property
    def is_holding(self) -> bool:
        """True if a request or an answer waits for an interceptor."""
        return self._frames.is_holding

    @property
    def is_holding_answer(self) -> bool:
        return self._frames.pending_answer is not None

    @property
    def has_waiting_requests(self) -> bool:
        return self._frames.has_waiting_requests

    @property
    def has_unfinished_frame(self) -> bool:
        return self._frames.has_unfinished_frame

    def requests(self, chunk: memoryview) -> None:
        """Takes bytes that the client has sent."""
        self._frames.receive_requests(chunk)
        self._carry_out()

    def answers(self, buffers: Sequence[Buffer]) -> None:
        """Takes the answers for the client. Raises ProtocolError for an answer without a request."""
        self._frames.receive_answers(buffers)
        self._carry_out()

    def close(self) -> None:
        self._connection = None
        for task in (self._deciding, self._seeing):
            if task is not None:
                task.cancel()
        self._deciding = self._seeing = None

    # Internals

    def _choose_handler(self, head: RequestHead) -> bool | None:
        """Sets `_handler` to the part that handles a request. Returns True if there is one, None if that depends on
        whether the broker has admitted the client. The next request is not taken before this one is decided."""
        self._handler = self._handler_of(head)
        return self._handler is not None and self._is_authenticated()

    def _handler_of(self, head: RequestHead) -> InterceptionHandler | None:
        """The part that handles a request; None if there is none. Also None for an unknown version: the code that
        passes the request on refuses it."""
        versions = RELAYED_APIS.get(head.api_key)  # type: ignore[call-overload]  # an IntEnum's member equals its number
        if versions is None or not versions.lowest <= head.api_version <= versions.highest:
            return None
        return next((each for each in self._handlers if each.handles(head)), None)

    def _carry_out(self) -> None:
        if self._is_carrying_out:
            return  # the call in progress continues with it
        self._is_carrying_out = True
        try:
            while (connection := self._connection) is not None and self._step(connection):
                pass
            if (connection := self._connection) is not None and self._frames.problem is not None:
                connection.interception_ended(self._frames.problem)
        finally:
            self._is_carrying_out = False

    def _step(self, connection: InterceptedConnection) -> bool:
        """Carries out the next thing that may continue. Returns True if there was one."""
        frames = self._frames
        sent, frames.sent = frames.sent, []
        passed, frames.passed = frames.passed, []
        if sent:
            connection.send(sent)
        if passed:
            connection.pass_on(passed)
        is_moving = bool(sent or passed)
        if frames.pending_request is not None and self._deciding is None:
            is_moving |= self._decide(connection, *frames.pending_request)
        if frames.pending_answer is not None and self._seeing is None and self._connection is not None:
            self._seeing = self._begin(partial(self._see, *frames.pending_answer))
        return is_moving

    def _decide(self, connection: InterceptedConnection, head: RequestHead, frame: memoryview) -> bool:
        requests = self._handler
        assert requests is not None, "it was taken"
        try:
            decision = requests.decide(head, frame)
        except ProtocolError as problem:
            connection.interception_ended(problem)
            return False
        except Exception:
            log.exception("connection closed: bug in kafka-mesh or in a router", **self._transport.log_fields)
            connection.interception_ended(None)
            return False
        if decision is None:
            self._deciding = self._begin(partial(self._decide_later, requests, head, frame))
            return False
        self._frames.decide(decision)
        self._frames.go_on()
        return True

    async def _decide_later(self, requests: InterceptionHandler, head: RequestHead, frame: memoryview) -> None:
        decision: Decision | None = None
        try:
            decision = await requests.decide_later(head, frame)
        except ProtocolError as problem:
            self._end(problem)
        except Exception:
            log.exception("connection closed: bug in kafka-mesh", **self._transport.log_fields)
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
            log.exception("connection closed: unreadable response, or bug in kafka-mesh", **self._transport.log_fields)
            self._end(None)
        self._seeing = None
        if changed is None or self._connection is None:
            return
        try:
            self._frames.answer_changed(changed)
        except ProtocolError:
            log.exception("connection closed: unreadable response, or bug in kafka-mesh", **self._transport.log_fields)
            self._end(None)
            return
        self._went_on()

    def _begin(self, work: Run) -> asyncio.Task[None]:
        task = OwnedTask(TaskName.INTERCEPTION, str(self._transport.log_fields["virtual_cluster"]))
        return begin(task, work, partial(self._end, None))

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
    is_authenticated: Callable[[], bool | None],
    largest_request: Callable[[], int],
    others: Sequence[InterceptionHandler] = (),
) -> Interception | NoInterception:
    """The interception of a client's connection, with the arguments of `Interception`; a stand-in if nothing is to be
    intercepted."""
    if interceptors is None and not others:
        return NO_INTERCEPTION
    return Interception(connection, interceptors, transport, is_authenticated, largest_request, others)

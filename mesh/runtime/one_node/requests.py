"""The requests of one client of a cluster that it sees as one node. Each is divided among brokers, and their responses
are merged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, assert_never

from mesh.routing.kit.errors import error_answer, top_level_error
from mesh.routing.kit.merge import arrays_of
from mesh.routing.kit.refusals import code_when_down
from mesh.routing.one_node.division import by_coordinators, by_leaders, keys_of, partitions_of
from mesh.routing.one_node.leaders import Topic
from mesh.routing.one_node.one_node_apis import ONE_NODE_APIS, BrokerDestination
from mesh.routing.one_node.rewriting import VisibleNodes, log_dirs_of, refusal, with_broker_id
from mesh.routing.spi import Disconnect, Request, Respond, RespondWithoutReply, Router, RouterContext, RouterResult
from mesh.runtime.one_node.brokers import Channel, Links, NotSent
from mesh.runtime.one_node.cluster import GROUP, TRANSACTION, OneNodeCluster
from mesh.runtime.one_node.fetches import LEADER_ERRORS, ClientFetches
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.trees import Tree

MOST_TRIED: Final = 3
"""The most brokers that are tried for a request that any broker can answer."""
MEMBERS_WAIT: Final = 600.0
"""Seconds that a broker has for a rebalance of a group. Its members have time limits of their own."""
_AT_ONCE: Final = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER})
"""Requests that are also sent to the next broker if the first one is late."""
_OF_MEMBERS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
_COORDINATOR_ERRORS: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_OF_TRANSACTIONS: Final = frozenset(
    key for key, row in ONE_NODE_APIS.items() if row.destination is BrokerDestination.TRANSACTION
)


class _Coordinator(NamedTuple):
    """The coordinator to ask, or the error if there is none."""

    broker: int
    error: ErrorCode = ErrorCode.NONE


class OneNodeRouter(Router):
    """The router of one connection. shown: the nodes that its client sees."""

    def __init__(self, cluster: OneNodeCluster, links: Links, shown: VisibleNodes) -> None:
        self._cluster: Final = cluster
        self._links: Final = links
        self._shown: Final = shown
        self._fetches: Final = ClientFetches(cluster, links)
        self._produce_turn: Final = asyncio.Lock()
        self._own_broker: int | None = None

    async def on_request(self, request: Request, context: RouterContext) -> RouterResult:
        refused = refusal(request.api, request.body)
        if refused is not None:
            return Respond(error_answer(request.api, request.version, request.body, *refused))
        match ONE_NODE_APIS[request.api].destination:
            case BrokerDestination.FETCH:
                return Respond(await self._fetches.answer(request, self._any_broker(), self._shown))
            case BrokerDestination.LEADERS if request.api is ApiKey.PRODUCE:
                return await self._produce(request)
            case BrokerDestination.LEADERS:
                answer = await self._of_leaders(request)
            case BrokerDestination.GROUP | BrokerDestination.TRANSACTION:
                answer = await self._of_coordinators(request)
            case BrokerDestination.EVERY:
                answer = await self._of_every_broker(request)
            case BrokerDestination.CONTROLLER:
                answer = await self._of_controller(request)
            case BrokerDestination.ANY:
                answer = await self._of_any(request)
            case BrokerDestination.TERMINATED | BrokerDestination.NOT_SERVED:
                raise AssertionError("it is not taken up")
            case way:
                assert_never(way)
        return Respond(self._shown.rewritten(request.api, answer))

    def close(self) -> None:
        self._fetches.close()
        self._links.close()

    # Leaders

    async def _produce(self, request: Request) -> RouterResult:
        """Sends a Produce to the leaders, and merges their responses. The records of one partition are sent in their
        order."""
        async with self._produce_turn:
            asked = await self._by_leaders(request)
        answers = await asyncio.gather(*asked)
        if request.wants_answer:
            answer = self._joined(request, answers)
            self._mark_stale_leaders(request, answer)
            return Respond(self._shown.rewritten(request.api, answer))
        if not any(answers):
            return RespondWithoutReply()
        return Disconnect("a broker was not reached, and the client wants no answer that could say so")

    async def _of_leaders(self, request: Request) -> Tree:
        answer = self._joined(request, await asyncio.gather(*await self._by_leaders(request)))
        self._mark_stale_leaders(request, answer)
        return answer

    async def _by_leaders(self, request: Request) -> list[asyncio.Task[Tree]]:
        api, version, body = request.api, request.version, request.body
        await self._cluster.look_up(partitions_of(api, version, body))
        pieces = by_leaders(api, version, body, self._leader) or {self._any_broker(): body}
        waits = max(body.get("timeout_ms", 0), 0) / 1_000
        channel = Channel.PRODUCE if api is ApiKey.PRODUCE else Channel.ASK
        return [self._begin(self._ask(request, broker, piece, waits, channel)) for broker, piece in pieces.items()]

    def _leader(self, topic: Topic, partition: int) -> int:
        """The leader of a partition. If none is known, any broker: each of them reports that there is no leader."""
        known = self._cluster.leaders.leader(topic, partition)
        return self._any_broker() if known is None or known < 0 else known

    def _mark_stale_leaders(self, request: Request, answer: Tree) -> None:
        if any(code in LEADER_ERRORS for code in _codes(answer)):
            about = partitions_of(request.api, request.version, request.body)
            self._cluster.mark_stale({topic for topic, _ in about})

    # Coordinators

    async def _of_coordinators(self, request: Request) -> Tree:
        api, version, body = request.api, request.version, request.body
        kind = TRANSACTION if api in _OF_TRANSACTIONS else GROUP
        keys = keys_of(api, version, body)
        if not keys:
            return await self._of_any(request)
        coordinators = {key: _Coordinator(*await self._cluster.coordinator(kind, key)) for key in keys}
        pieces = by_coordinators(api, version, body, coordinators.__getitem__)
        waits = MEMBERS_WAIT if api in _OF_MEMBERS else max(body.get("timeout_ms", 0), 0) / 1_000
        asked = [
            self._begin(self._ask_coordinator(request, kind, coordinator, piece, waits))
            for coordinator, piece in pieces.items()
        ]
        answer = self._joined(request, await asyncio.gather(*asked))
        if any(code in _COORDINATOR_ERRORS for code in _codes(answer)):
            for key in keys:
                self._cluster.forget_coordinator(kind, key)
        return answer

    async def _ask_coordinator(
        self, request: Request, kind: int, coordinator: _Coordinator, piece: Tree, waits: float
    ) -> Tree:
        if coordinator.error:
            return error_answer(request.api, request.version, piece, coordinator.error)
        try:
            return await self._ask_broker(request, coordinator.broker, piece, waits, Channel.ASK)
        except (Unreachable, ProtocolError) as problem:
            # After an error in a commit, clients ask the same coordinator again. So the mesh must look it up again.
            for key in keys_of(request.api, request.version, piece):
                self._cluster.forget_coordinator(kind, key)
            return self._failed(request, piece, problem)

    # Other requests

    async def _of_every_broker(self, request: Request) -> Tree:
        brokers = list(self._cluster.brokers.known)
        if not brokers:
            return error_answer(request.api, request.version, request.body, code_when_down(request.api))
        asked = [self._begin(self._ask(request, broker, request.body, 0.0)) for broker in brokers]
        answers = await asyncio.gather(*asked)
        if request.api is ApiKey.DESCRIBE_LOG_DIRS:
            answers = [log_dirs_of(broker, answer) for broker, answer in zip(brokers, answers, strict=True)]
        return self._joined(request, answers)

    async def _of_controller(self, request: Request) -> Tree:
        controller = self._cluster.controller
        waits = max(request.body.get("timeout_ms", 0), 0) / 1_000
        broker = self._any_broker() if controller is None else controller
        answer = await self._ask(request, broker, request.body, waits)
        if ErrorCode.NOT_CONTROLLER in _codes(answer):
            await self._cluster.refresh_controller()
        return answer

    async def _of_any(self, request: Request) -> Tree:
        if request.api in _AT_ONCE:
            return await self._at_once(request)
        for _ in range(MOST_TRIED - 1):
            broker = self._any_broker()
            piece = with_broker_id(request.api, request.body, broker)
            try:
                return await self._links.ask(
                    broker, Channel.ASK, request.api, request.version, piece, self._cluster.timeout
                )
            except NotSent:
                self._own_broker = None
            except (Unreachable, ProtocolError) as problem:
                return self._failed(request, request.body, problem)
        broker = self._any_broker()
        return await self._ask(request, broker, with_broker_id(request.api, request.body, broker), 0.0)

    async def _at_once(self, request: Request) -> Tree:
        api, version, body = request.api, request.version, request.body
        try:
            answer = await self._cluster.brokers.ask_any(api, version, body)
        except (Unreachable, ProtocolError) as problem:
            return self._failed(request, body, problem)
        if api is ApiKey.METADATA:
            self._cluster.leaders.take(answer)
        elif api is ApiKey.FIND_COORDINATOR:
            for kind, key, broker in _coordinators(body, answer):
                self._cluster.set_coordinator(kind, key, broker)
        return answer

    # Internals

    def _any_broker(self) -> int:
        """A broker for this connection, the same one as long as it can be reached; -1 if the cluster has none."""
        known = self._cluster.brokers.known
        if self._own_broker not in known:
            self._own_broker = next(iter(self._cluster.brokers.in_turn()), -1)
        assert self._own_broker is not None, "it was chosen"
        return self._own_broker

    @staticmethod
    def _begin(asking: Any) -> asyncio.Task[Tree]:
        """Begins a task. Tasks begin in the order in which they are made."""
        return asyncio.get_running_loop().create_task(asking, name="part of a request")

    async def _ask(
        self, request: Request, broker: int, piece: Tree, waits: float, channel: Channel = Channel.ASK
    ) -> Tree:
        """Asks a broker. Returns a response with an error if the broker does not answer. piece: the broker's part of
        the request."""
        try:
            return await self._ask_broker(request, broker, piece, waits, channel)
        except (Unreachable, ProtocolError) as problem:
            return self._failed(request, piece, problem)

    async def _ask_broker(self, request: Request, broker: int, piece: Tree, waits: float, channel: Channel) -> Tree:
        """Asks a broker. Raises Unreachable, ProtocolError."""
        waits += self._cluster.timeout
        api, version, is_answered = request.api, request.version, request.wants_answer
        return await self._links.ask(broker, channel, api, version, piece, waits, is_answered=is_answered)

    def _failed(self, request: Request, piece: Tree, problem: Unreachable | ProtocolError) -> Tree:
        self._own_broker = None
        self._cluster.brokers.not_answered(request.api, problem)
        code = code_when_down(request.api)
        if request.api is ApiKey.PRODUCE and not isinstance(problem, NotSent):
            code = ErrorCode.REQUEST_TIMED_OUT  # the broker may have written it
        return error_answer(request.api, request.version, piece, code)

    @staticmethod
    def _joined(request: Request, answers: Sequence[Tree]) -> Tree:
        if len(answers) == 1:
            return answers[0]
        error = top_level_error(request.api, request.version)
        failed = [each for each in answers if error is not None and each.get(error)]
        first = failed[0] if failed else answers[0]
        joined = first | arrays_of(request.api, request.version, request.body, answers)
        throttled = [each["throttle_time_ms"] for each in answers if "throttle_time_ms" in each]
        return joined | {"throttle_time_ms": max(throttled)} if throttled else joined


def _codes(tree: Any) -> Iterator[int]:
    """Yields all error codes in a response."""
    match tree:
        case dict():
            for name, value in tree.items():
                if name.endswith("error_code"):
                    yield value
                elif isinstance(value, dict | list):
                    yield from _codes(value)
        case list():
            for each in tree:
                yield from _codes(each)


def _coordinators(asked: Mapping[str, Any], answer: Tree) -> Iterator[tuple[int, str, int]]:
    """Yields the coordinators in a response: the key type, the key, and the broker."""
    kind = asked.get("key_type", GROUP)
    found = answer.get("coordinators")
    if found is None:
        found = [answer | {"key": asked["key"]}]
    for each in found:
        if not each["error_code"] and each["node_id"] >= 0 and kind in (GROUP, TRANSACTION):
            yield kind, each["key"], each["node_id"]

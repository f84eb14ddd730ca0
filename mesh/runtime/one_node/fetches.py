"""The Fetches of one client: sends the requests of `fetch_join` to brokers, and gives their responses back to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from functools import partial
from typing import Final

from mesh.routing.kit.errors import error_answer
from mesh.routing.one_node.fetch_join import Broker, ClientFetch, FetchJoin, LegRequest
from mesh.routing.one_node.fetch_sessions import FetchSessions, Key, Resolved
from mesh.routing.one_node.leaders import Topic
from mesh.routing.one_node.leg_sessions import LegSession
from mesh.routing.one_node.rewriting import VisibleNodes
from mesh.routing.spi import Request
from mesh.runtime.one_node.brokers import Channel, Links
from mesh.runtime.one_node.cluster import OneNodeCluster
from mesh.tasks import OwnedTask, TaskName, begin
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.trees import ZERO_ID, Tree, topic_of

LEADER_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


_FETCH: Final = OwnedTask(TaskName.FETCH)


class ClientFetches:
    """The Fetches of one connection."""

    def __init__(self, cluster: OneNodeCluster, links: Links) -> None:
        self._cluster: Final = cluster
        self._links: Final = links
        self._sessions: Final = FetchSessions(lambda: random.randrange(1, 1 << 31))
        self._leg_sessions: Final[dict[Broker, LegSession]] = {}
        self._join: Final = FetchJoin()
        self._turn: Final = asyncio.Lock()
        self._news: Final = asyncio.Event()
        self._legs: Final[set[asyncio.Task[None]]] = set()
        self._throttled = 0
        self._changes = cluster.changes

    async def answer(self, request: Request, any_broker: Broker, shown: VisibleNodes) -> Tree:
        """Answers a Fetch. The Fetches of a connection are answered one after the other. any_broker: the broker to ask
        about partitions without a known leader."""
        async with self._turn:
            resolved = self._sessions.resolve(request.version, request.body)
            if isinstance(resolved, ErrorCode):
                return _failed(request, resolved)
            await self._cluster.look_up(resolved.partitions)
            await self._fetch(request, resolved, any_broker)
            if self._join.error:
                return _failed(request, self._join.error)
            return self._response(resolved, shown)

    def close(self) -> None:
        for leg in self._legs:
            leg.cancel()

    async def _fetch(self, request: Request, resolved: Resolved, any_broker: Broker) -> None:
        """Returns when the Fetch is to be answered."""
        body, leader = request.body, self._cluster.leaders.leader
        clock, join = asyncio.get_running_loop().time, self._join

        def leader_of(key: Key) -> Broker:
            known = leader(*key)
            return any_broker if known is None or known < 0 else known

        wait = max(body["max_wait_ms"], 0) / 1_000
        most = body["max_bytes"]
        join.begin(ClientFetch(resolved.partitions, wait, body["min_bytes"], most, body["isolation_level"]), clock())
        while True:
            self._news.clear()
            if self._changes != self._cluster.changes:
                self._changes = self._cluster.changes
                self._leg_sessions.clear()
                await self._cluster.look_up(resolved.partitions)
            for leg in join.legs(leader_of, clock()):
                self._ask(request, leg)
            if join.is_complete(clock()):
                return
            try:
                async with asyncio.timeout_at(join.wake_at(clock())):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _ask(self, request: Request, leg: LegRequest) -> None:
        task = begin(_FETCH, partial(self._run_leg, request, leg), partial(self._not_answered, leg))
        self._legs.add(task)
        task.add_done_callback(self._legs.discard)

    def _not_answered(self, leg: LegRequest) -> None:
        self._leg_sessions.setdefault(leg.broker, LegSession()).reset()
        self._join.failed(leg.broker)
        self._news.set()

    async def _run_leg(self, request: Request, leg: LegRequest) -> None:
        session = self._leg_sessions.setdefault(leg.broker, LegSession())
        try:
            answer = await self._send(request, leg, session)
            if session.take_answer(answer.get("session_id", 0), answer.get("error_code", 0)):
                answer = await self._send(request, leg, session)
                session.take_answer(answer.get("session_id", 0), answer.get("error_code", 0))
        except (Unreachable, ProtocolError) as problem:
            self._cluster.brokers.not_answered(ApiKey.FETCH, problem)
            self._cluster.mark_stale({topic for topic, _ in leg.partitions})
            self._not_answered(leg)
        else:
            self._take_response(leg.broker, answer)
            self._news.set()

    async def _send(self, request: Request, leg: LegRequest, session: LegSession) -> Tree:
        part = session.next_request(request.version, leg.partitions)
        forgotten: dict[Topic, list[int]] = {}
        for topic, partition in part.forgotten:
            forgotten.setdefault(topic, []).append(partition)
        asked = request.body | {
            "session_id": part.id,
            "session_epoch": part.epoch,
            "max_wait_ms": leg.max_wait_ms,
            "min_bytes": leg.min_bytes,
            "max_bytes": leg.max_bytes,
            "topics": _by_topic(part.partitions),
            "forgotten_topics_data": [_topic(each) | {"partitions": gone} for each, gone in forgotten.items()],
        }
        waits = leg.max_wait_ms / 1_000 + self._cluster.timeout
        return await self._links.ask(leg.broker, Channel.FETCH, ApiKey.FETCH, request.version, asked, waits)

    def _take_response(self, broker: Broker, answer: Tree) -> None:
        self._throttled = max(self._throttled, answer["throttle_time_ms"])
        responses: dict[Key, Tree] = {}
        for topic in answer["responses"]:
            name = topic_of(topic)
            for partition in topic["partitions"]:
                responses[name, partition["partition_index"]] = partition
                if partition["error_code"] in LEADER_ERRORS:
                    self._cluster.mark_stale({name})
                if (current := partition.get("current_leader")) is not None and current["leader_id"] >= 0:
                    moved = current["leader_id"], current["leader_epoch"]
                    self._cluster.leaders.moved(name, partition["partition_index"], *moved)
        self._join.answered(broker, responses, answer.get("error_code", 0), asyncio.get_running_loop().time())

    def _response(self, resolved: Resolved, shown: VisibleNodes) -> Tree:
        taken, session = self._join.take(), resolved.session
        partitions: dict[Key, Tree] = {}
        for key, each in taken.items():
            if session is None or session.maybe_update_response(key, each, is_full=resolved.is_full):
                partitions[key] = shown.leader(each)
        if resolved.is_full:
            partitions.update(
                (key, self._join.answer_without_records(key)) for key in resolved.partitions if key not in taken
            )
        throttled, self._throttled = self._throttled, 0
        has_moved = any((each.get("current_leader") or {}).get("leader_id", -1) >= 0 for each in partitions.values())
        return {
            "throttle_time_ms": throttled,
            "error_code": 0,
            "session_id": resolved.session_id,
            "responses": _by_topic(partitions),
            "node_endpoints": shown.endpoints({"node_endpoints": has_moved}),
        }


def _failed(request: Request, code: ErrorCode) -> Tree:
    empty = request.body | {"topics": [], "session_id": 0}
    return error_answer(ApiKey.FETCH, request.version, empty, code)


def _by_topic(partitions: Mapping[Key, Tree]) -> list[Tree]:
    """Groups the partitions of a request or of a response by topic, in the order of their first partitions."""
    found: dict[Topic, list[Tree]] = {}
    for (topic, _), each in partitions.items():
        found.setdefault(topic, []).append(each)
    return [_topic(topic) | {"partitions": each} for topic, each in found.items()]


def _topic(topic: Topic) -> Tree:
    """The name and the id of a topic in an element of a request, of forgotten topics, or of a response."""
    return {"topic": topic, "topic_id": ZERO_ID} if isinstance(topic, str) else {"topic": "", "topic_id": topic}

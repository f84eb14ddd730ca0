"""Metadata of a router, from all its leaves. It never waits long for a leaf that is late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from mesh.routing.concatenated import Part
from mesh.routing.metadata import KnownLeaf, MergedMetadata, RequestedTopics, requested_topics
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.leaves import Leaves, RouterLeaf
from mesh.runtime.entity_router.parts import KnownParts
from mesh.runtime.relay.traffic import Unanswered
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.trees import ZERO_ID, Tree, read_tree, write_tree

PATIENCE: Final = 1.0
"""Seconds that a response waits for a leaf when it is first late. All later requests of the connection wait, too."""
MOST_IDS: Final = 100_000
"""The most topic ids whose names are remembered."""
log = get_logger(__name__)

_OURS: Final = RELAYED_APIS[ApiKey.METADATA]


class RouterMetadata:
    """The Metadata of a router. cluster_id: the cluster id that clients see; None for that of the default leaf. parts:
    the parts of concatenated topics."""

    def __init__(self, leaves: Leaves, cluster_id: str | None, parts: KnownParts | None = None) -> None:
        self._leaves = leaves
        self._cluster_id = cluster_id
        self._parts = parts
        self._known: dict[LeafNumber, KnownLeaf] = {leaf.number: KnownLeaf() for leaf in leaves}
        self._late: set[LeafNumber] = set()
        """Leaves that were late, and have not answered since then."""
        self._last: dict[LeafNumber, tuple[int, bytes, Tree]] = {}
        """The last responses about all topics, by leaf: the version, the body, and the decoded body. An unchanged body
        is not decoded again."""
        self._asking: set[asyncio.Task[Tree]] = set()
        self._names_of_ids: dict[UUID, str] = {}
        """The names of topics as clients see them, by id; rules need them. A topic keeps its name as long as it has its
        id."""

    @property
    def cluster_id(self) -> str:
        """The cluster id that clients see; empty while it is not known."""
        return self._cluster_id or self._leaves.default.nodes.cluster_id or ""

    def leaves_changed(self) -> None:
        """Forgets removed leaves and remembered responses."""
        numbers = self._leaves.numbers
        for number in [number for number in self._known if number not in numbers]:
            del self._known[number]
        for number in numbers:
            self._known.setdefault(number, KnownLeaf())
        self._late &= numbers
        self._last.clear()
        self._names_of_ids.clear()
        if self._parts is not None:
            self._parts.leaves_changed()

    async def check_parts(self, leaf: RouterLeaf) -> None:
        """Asks a leaf for its parts of concatenated topics, if it has some."""
        names = [part.topic for part in self._leaves.names.concatenated.parts_at(leaf.number)]
        if not names or self._parts is None:
            return
        topics: list[Tree] = [{"name": name, "topic_id": ZERO_ID} for name in names]
        try:
            await self._ask_leaf(leaf, {}, {"topics": topics, "allow_auto_topic_creation": False})
        except (Unreachable, ProtocolError):
            return
        if (known := self._known.get(leaf.number)) is not None:
            self._parts.take_all(leaf.number, known)

    def lacks(self, part: Part) -> bool:
        """True if a leaf has reported that it does not have this part of a concatenated topic."""
        known = self._known.get(part.leaf)
        is_reported = known is not None and (
            known.has_reported or (self._parts is not None and self._parts.is_reported(part))
        )
        return is_reported and self._leaves.part_ids.newest(part.leaf, part.topic) is None

    async def answer(self, request: Tree, version: int, sees: Callable[[str], bool] | None = None) -> Tree:
        """Answers a Metadata request. request: as decoded in this version. sees: returns True if the client sees a
        topic in a list of all topics; None if it sees all topics."""
        asked = requested_topics(request, version, self._leaves.names)
        answers = await self._ask(asked, request)
        leaves = self._leaves
        merged = MergedMetadata(
            leaves.names, leaves.ids, self._advertised_address, self.cluster_id, leaves.default.number
        )
        brokers = {leaf.number: self._brokers(leaf) for leaf in leaves}
        as_trees = sees is not None and bool(request.get("include_topic_authorized_operations"))
        return merged.answer(asked, version, answers, self._known, brokers, sees, as_trees=as_trees)

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of the topic with this id, as clients see it; None if it is invisible or unknown. A part of a
        concatenated topic has no id for clients."""
        name = self._names_of_ids.get(topic_id)
        if name is None and (name := self._look_up(topic_id)) is not None:
            if len(self._names_of_ids) >= MOST_IDS:
                self._names_of_ids.clear()
            self._names_of_ids[topic_id] = name
        return name

    def leaf_of_topic_id(self, topic_id: UUID) -> LeafNumber | None:
        """The leaf of a topic id, as far as known; None for an invisible topic, and for a topic of several leaves."""
        found = self._found(topic_id)
        return None if found is None else found[0]

    def topic_of_id(self, topic_id: UUID) -> str | None:
        """The name of a topic as clients see it, as far as known; None for an invisible topic."""
        return self._look_up(topic_id)

    def _look_up(self, topic_id: UUID) -> str | None:
        if (concatenated := self._leaves.names.concatenated.with_id(topic_id)) is not None:
            return concatenated.name
        found = self._found(topic_id)
        return None if found is None else found[1]

    def _found(self, topic_id: UUID) -> tuple[LeafNumber, str] | None:
        """The leaf of a topic, and its name as clients see it."""
        names = self._leaves.names
        for leaf, known in self._known.items():
            for topic in known.names_of_ids((topic_id,)):
                shown = names.client_name(leaf, topic)
                if shown is not None and names.concatenated.part(leaf, topic) is None:
                    return leaf, shown
        return None

    @property
    def are_all_reported(self) -> bool:
        """True if every leaf has ever reported its topics."""
        return all(known.has_reported for known in self._known.values())

    def topics(self) -> list[str]:
        """The names of all reported topics, as clients see them."""
        names = self._leaves.names
        shown = (
            each for leaf, known in self._known.items() for each in names.client_names(leaf, known.topics).values()
        )
        return list(dict.fromkeys(shown)) if names.concatenated else list(shown)

    def _brokers(self, leaf: RouterLeaf) -> list[Tree]:
        racks = self._known[leaf.number].racks
        nodes = leaf.nodes.known.values()
        return [
            {"node_id": each.id, "host": each.host, "port": each.port, "rack": racks.get(each.id)} for each in nodes
        ]

    def close(self) -> None:
        for task in self._asking:
            task.cancel()

    def _advertised_address(self, leaf: LeafNumber, broker: Tree) -> tuple[str, int] | None:
        nodes = self._leaves.by_number[leaf].nodes
        return nodes.address_of(broker["node_id"], broker["host"], broker["port"])

    async def _ask(self, asked: RequestedTopics, request: Tree) -> Mapping[LeafNumber, Tree]:
        asking: dict[LeafNumber, asyncio.Task[Tree]] = {}
        for leaf in self._leaves:
            if (topics := asked.topics_for(leaf.number)) is not None:
                if asked.concatenated:  # the broker's default `num.partitions` would be wrong for it
                    topics["allow_auto_topic_creation"] = False
                task = asyncio.get_running_loop().create_task(self._ask_leaf(leaf, request, topics))
                self._asking.add(task)
                task.add_done_callback(self._ask_ended)
                asking[leaf.number] = task
        waited = [task for leaf, task in asking.items() if leaf not in self._late]
        if waited:
            await asyncio.wait(waited, timeout=PATIENCE)
        self._late.update(leaf for leaf, task in asking.items() if not task.done())
        return {
            leaf: task.result()
            for leaf, task in asking.items()
            if task.done() and not task.cancelled() and not task.exception()
        }

    def _ask_ended(self, task: asyncio.Task[Tree]) -> None:
        self._asking.discard(task)
        problem = None if task.cancelled() else task.exception()
        if problem is not None and not isinstance(problem, Unreachable | ProtocolError):
            log.error("cluster metadata unreadable", reason=repr(problem))

    async def _ask_leaf(self, leaf: RouterLeaf, request: Tree, topics: Tree) -> Tree:
        is_all = topics["topics"] is None
        wanted = {"allow_auto_topic_creation": True, **request, **topics}

        def request_for(served: Mapping[int, VersionRange]) -> ClientRequest:
            metadata = served.get(ApiKey.METADATA)
            version = min(_OURS.highest, metadata.highest if metadata is not None else 1)
            body = write_tree(ApiKey.METADATA, version, Direction.REQUEST, wanted)
            return ClientRequest(ApiKey.METADATA, version, is_flexible(ApiKey.METADATA, version), (body,))

        def decoded(response: ClientResponse) -> Tree:
            version, body = response.request.api_version, response.frame[response.body :]
            last = self._last.get(leaf.number)
            if is_all and last is not None and last[0] == version and last[1] == body:
                return last[2]
            answer = read_tree(ApiKey.METADATA, version, Direction.RESPONSE, body)
            if is_all:
                self._last[leaf.number] = version, bytes(body), answer
            return answer

        try:
            answer = await leaf.nodes.ask_any(request_for, decoded)
        except (Unreachable, ProtocolError) as problem:
            reason: Unanswered = "unreachable" if isinstance(problem, Unreachable) else "bad_answer"
            leaf.services.traffic.not_answered(ApiKey.METADATA, reason)
            raise
        self._late.discard(leaf.number)
        if (known := self._known.get(leaf.number)) is not None:  # the leaf may have been removed meanwhile
            known.take(answer, is_all=is_all)
            if self._parts is not None:
                self._parts.take(leaf.number, known)
        return answer

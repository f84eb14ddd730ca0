"""Asks the leaves of a router for their Metadata, and never waits long for one that is late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from mesh.routing.metadata import AskedTopics, KnownLeaf, MergedMetadata, asked_topics
from mesh.routing.names import LeafNumber
from mesh.runtime.relay.traffic import Unanswered
from mesh.runtime.router.leaves import Leaves, RouterLeaf
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange
from mesh.wire.entities import Side
from mesh.wire.errors import ProtocolError
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.trees import Tree, read_tree, write_tree

PATIENCE: Final = 1.0
"""Seconds that an answer waits for a leaf, the first time that it is late. All that follows on the connection waits."""
MOST_IDS: Final = 100_000
"""Names that are remembered by the ids of their topics."""
log = get_logger(__name__)

_OURS: Final = RELAYED_APIS[ApiKey.METADATA]


class RouterMetadata:
    """The Metadata of a router. cluster_id: what clients are told; None: what the default leaf says."""

    def __init__(self, leaves: Leaves, cluster_id: str | None) -> None:
        self._leaves = leaves
        self._cluster_id = cluster_id
        self._known: dict[LeafNumber, KnownLeaf] = {leaf.number: KnownLeaf() for leaf in leaves}
        self._late: set[LeafNumber] = set()
        """Those that were waited for in vain, and have not answered since."""
        self._last: dict[LeafNumber, tuple[int, bytes, Tree]] = {}
        """Answers about all topics, which are read once as long as nothing changes: the version, its body, and that
        as a tree."""
        self._asking: set[asyncio.Task[Tree]] = set()
        self._names_of_ids: dict[UUID, str] = {}
        """What clients call topics, as rules need it; a topic keeps its name as long as it has its id."""

    @property
    def cluster_id(self) -> str:
        """What clients are told; empty as long as that is not known."""
        return self._cluster_id or self._leaves.default.nodes.cluster_id or ""

    def leaves_changed(self) -> None:
        """What is known of removed leaves is forgotten, and everything asked anew."""
        numbers = self._leaves.numbers
        for number in [number for number in self._known if number not in numbers]:
            del self._known[number]
        for number in numbers:
            self._known.setdefault(number, KnownLeaf())
        self._late &= numbers
        self._last.clear()
        self._names_of_ids.clear()

    async def answer(self, request: Tree, version: int, sees: Callable[[str], bool] | None = None) -> Tree:
        """request: as it was read in this version. sees: which of all topics its client does; None: each."""
        asked = asked_topics(request, version, self._leaves.names)
        answers = await self._ask(asked, request)
        leaves = self._leaves
        merged = MergedMetadata(leaves.names, leaves.ids, self._place_of, self.cluster_id, leaves.default.number)
        brokers = {leaf.number: self._brokers(leaf) for leaf in leaves}
        as_trees = sees is not None and bool(request.get("include_topic_authorized_operations"))
        return merged.answer(asked, version, answers, self._known, brokers, sees, as_trees=as_trees)

    def topic_name(self, topic_id: UUID) -> str | None:
        """What clients call the topic that has this id; None for one that they do not see, or of which has not been
        heard."""
        name = self._names_of_ids.get(topic_id)
        if name is None and (name := self._look_up(topic_id)) is not None:
            if len(self._names_of_ids) >= MOST_IDS:
                self._names_of_ids.clear()
            self._names_of_ids[topic_id] = name
        return name

    def _look_up(self, topic_id: UUID) -> str | None:
        for leaf, known in self._known.items():
            for topic in known.of_ids((topic_id,)):
                if (shown := self._leaves.names.shown(leaf, topic)) is not None:
                    return shown
        return None

    def leaf_of_topic_id(self, topic_id: UUID) -> LeafNumber | None:
        """As far as it has been heard of; None for one that clients do not see."""
        for leaf, known in self._known.items():
            if any(self._leaves.names.shown(leaf, topic) for topic in known.of_ids((topic_id,))):
                return leaf
        return None

    def topic_of_id(self, topic_id: UUID) -> str | None:
        """What clients call it, as far as it has been heard of; None for one that they do not see."""
        names = self._leaves.names
        for leaf, known in self._known.items():
            for topic in known.of_ids((topic_id,)):
                if (shown := names.shown(leaf, topic)) is not None:
                    return shown
        return None

    @property
    def are_all_heard(self) -> bool:
        """Whether every leaf has said at some time which topics it has."""
        return all(known.is_heard for known in self._known.values())

    def topics(self) -> list[str]:
        """What clients call all topics that have been heard of."""
        names = self._leaves.names
        return [shown for leaf, known in self._known.items() for shown in names.all_shown(leaf, known.topics).values()]

    def _brokers(self, leaf: RouterLeaf) -> list[Tree]:
        racks = self._known[leaf.number].racks
        nodes = leaf.nodes.known.values()
        return [
            {"node_id": each.id, "host": each.host, "port": each.port, "rack": racks.get(each.id)} for each in nodes
        ]

    def close(self) -> None:
        for task in self._asking:
            task.cancel()

    def _place_of(self, leaf: LeafNumber, broker: Tree) -> tuple[str, int] | None:
        nodes = self._leaves.by_number[leaf].nodes
        return nodes.address_of(broker["node_id"], broker["host"], broker["port"])

    async def _ask(self, asked: AskedTopics, request: Tree) -> Mapping[LeafNumber, Tree]:
        asking: dict[LeafNumber, asyncio.Task[Tree]] = {}
        for leaf in self._leaves:
            if (topics := asked.of(leaf.number)) is not None:
                task = asyncio.get_running_loop().create_task(self._ask_leaf(leaf, request, topics))
                self._asking.add(task)
                task.add_done_callback(self._asked)
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

    def _asked(self, task: asyncio.Task[Tree]) -> None:
        self._asking.discard(task)
        problem = None if task.cancelled() else task.exception()
        if problem is not None and not isinstance(problem, Unreachable | ProtocolError):
            log.error("the Metadata of a leaf could not be read", reason=repr(problem))

    async def _ask_leaf(self, leaf: RouterLeaf, request: Tree, topics: Tree) -> Tree:
        is_all = topics["topics"] is None
        wanted = {"allow_auto_topic_creation": True, **request, **topics}

        def request_for(served: Mapping[int, VersionRange]) -> ClientRequest:
            metadata = served.get(ApiKey.METADATA)
            version = min(_OURS.highest, metadata.highest if metadata is not None else 1)
            body = write_tree(ApiKey.METADATA, version, Side.REQUEST, wanted)
            return ClientRequest(ApiKey.METADATA, version, is_flexible(ApiKey.METADATA, version), (body,))

        def decoded(response: ClientResponse) -> Tree:
            version, body = response.request.api_version, response.frame[response.body :]
            last = self._last.get(leaf.number)
            if is_all and last is not None and last[0] == version and last[1] == body:
                return last[2]
            answer = read_tree(ApiKey.METADATA, version, Side.RESPONSE, body)
            if is_all:
                self._last[leaf.number] = version, bytes(body), answer
            return answer

        try:
            answer = await leaf.nodes.anywhere(request_for, decoded)
        except (Unreachable, ProtocolError) as problem:
            reason: Unanswered = "unreachable" if isinstance(problem, Unreachable) else "bad_answer"
            leaf.services.traffic.not_answered(ApiKey.METADATA, reason)
            raise
        self._late.discard(leaf.number)
        if (known := self._known.get(leaf.number)) is not None:  # it may have been removed meanwhile
            known.take(answer, is_all=is_all)
        return answer

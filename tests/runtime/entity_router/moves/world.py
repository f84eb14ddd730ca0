"""A union of two clusters that keep their state in memory; tests move its topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from struct import pack_into, unpack_from
from typing import Any
from uuid import UUID

from mesh.routing.moves.move import Move
from mesh.routing.moves.names import MovedNames
from mesh.runtime.entity_router.moves.gate import WriteGate
from mesh.runtime.entity_router.moves.moves import Moves
from mesh.upstream.store.documents import Document, DocumentKind, StoreUnavailable
from mesh.wire.apis import ApiKey
from mesh.wire.trees import ZERO_ID, Tree
from tests.routing.unions import RENAMED
from tests.runtime.entity_router.harness import LeafCluster, UnionWorld, topic, union

US_TOPIC_ID = UUID(int=99)


class MemoryStore:
    """Implements `mesh.upstream.store.store.Store`. is_away: it reads and writes nothing. puts_fail: how many writes
    are not answered; they are written all the same if is_written."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, str, str], Document] = {}
        self.is_away = False
        self.puts_fail = 0
        self.is_written = False

    def get(self, kind: DocumentKind, virtual_cluster: str, group: str) -> Document | None:
        self._check()
        return self.documents.get((kind.name, virtual_cluster, group))

    def groups(self, kind: DocumentKind, virtual_cluster: str) -> list[str]:
        self._check()
        return [key[2] for key in self.documents if key[:2] == (kind.name, virtual_cluster)]

    async def put(
        self, kind: DocumentKind, virtual_cluster: str, group: str, document: Document | None
    ) -> Document | None:
        self._check()
        fails = self.puts_fail > 0
        self.puts_fail = max(self.puts_fail - 1, 0)
        before = self.documents.get((kind.name, virtual_cluster, group))
        if not fails or self.is_written:
            if document is None:
                self.documents.pop((kind.name, virtual_cluster, group), None)
            else:
                self.documents[kind.name, virtual_cluster, group] = document
        if fails:
            raise StoreUnavailable("not answered")
        return before

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnavailable("away")


class Cluster:
    """The state of a cluster: logs of topics with records in partition 0, and offsets of groups. members: groups with
    members, which accept no offsets from others. configs: of topics. on_create: called with each topic of a
    CreateTopics."""

    def __init__(self, leaf: LeafCluster) -> None:
        self.leaf = leaf
        self.logs: dict[str, list[bytes]] = {}
        self.starts: dict[str, int] = {}
        self.offsets: dict[tuple[str, str], int] = {}
        self.members: set[str] = set()
        self.kinds: dict[str, str] = {}
        self.configs: dict[str, str] = {}
        self.transactions: list[int] = []
        self.holds_back: Callable[[ApiKey], bool] = lambda api_key: False
        self.on_create: Callable[[Tree], None] = lambda topic: None
        leaf.answers = self.answer

    def create(self, name: str, id: UUID | None = None) -> None:
        self.leaf.topics.append(topic(name) | ({} if id is None else {"topic_id": id}))
        self.logs[name], self.starts[name] = [], 0

    def add_partition(self, name: str) -> None:
        """Adds a partition without records."""
        index = next(index for index, each in enumerate(self.leaf.topics) if each["name"] == name)
        before = self.leaf.topics[index]
        count = len(before["partitions"])
        self.leaf.topics[index] = before | {"partitions": topic(name, count + 1)["partitions"]}

    def end(self, name: str) -> int:
        return _end(self.logs[name][-1]) if self.logs[name] else self.starts[name]

    def append(self, name: str, batch: bytes) -> int:
        base, data = self.end(name), bytearray(batch)
        pack_into(">q", data, 0, base)
        self.logs[name].append(bytes(data))
        return base

    def answer(self, api_key: ApiKey, version: int, request: Tree) -> Tree | None:
        if self.holds_back(api_key):
            return None
        told: Tree = getattr(self, f"_{api_key.name.lower()}")(request)
        return told

    def _name(self, asked: Tree, key: str = "name") -> str | None:
        id = asked.get("topic_id", ZERO_ID)
        if id == ZERO_ID:
            name: str = asked[key]
            return name if name in self.logs else None
        return next((str(each["name"]) for each in self.leaf.topics if each["topic_id"] == id), None)

    def _create_topics(self, request: Tree) -> Tree:
        for each in request["topics"]:
            self.on_create(each)
            if each["name"] not in self.logs:
                self.create(each["name"], US_TOPIC_ID)
        return {"topics": [{"name": each["name"], "error_code": 0} for each in request["topics"]]}

    def _delete_topics(self, request: Tree) -> Tree:
        for name in request["topic_names"]:
            self.logs.pop(name)
            self.leaf.topics = [each for each in self.leaf.topics if each["name"] != name]
        return {"responses": [{"name": name, "error_code": 0} for name in request["topic_names"]]}

    def _describe_configs(self, request: Tree) -> Tree:
        configs = [
            {"name": name, "value": value, "config_source": 1, "config_type": 2} for name, value in self.configs.items()
        ]
        results = [{**each, "error_code": 0, "configs": configs} for each in request["resources"]]
        return {"results": results}

    def _describe_producers(self, request: Tree) -> Tree:
        producers = [
            {"producer_id": each, "producer_epoch": 0, "last_sequence": 0, "last_timestamp": 0, "coordinator_epoch": 0}
            | {"current_txn_start_offset": 0}
            for each in self.transactions
        ]
        partitions = [{"partition_index": 0, "error_code": 0, "active_producers": producers}]
        return {"topics": [{"name": each["name"], "partitions": partitions} for each in request["topics"]]}

    def _list_offsets(self, request: Tree) -> Tree:
        def told(name: str, asked: Tree) -> Tree:
            index = asked["partition_index"]
            offset = 0 if index else self.starts[name] if asked["timestamp"] == -2 else self.end(name)
            return {"partition_index": index, "error_code": 0, "timestamp": -1, "offset": offset}

        topics = [
            {"name": each["name"], "partitions": [told(each["name"], one) for one in each["partitions"]]}
            for each in request["topics"]
        ]
        return {"topics": topics}

    def _delete_records(self, request: Tree) -> Tree:
        for each in request["topics"]:
            self.starts[each["name"]] = each["partitions"][0]["offset"]
        partitions = [{"partition_index": 0, "error_code": 0, "low_watermark": 0}]
        return {"topics": [{"name": each["name"], "partitions": partitions} for each in request["topics"]]}

    def _fetch(self, request: Tree) -> Tree:
        def told(asked: Tree, one: Tree) -> Tree:
            name = self._name(asked, "topic")
            if name is None:
                return {"partition_index": one["partition"], "error_code": 100, "high_watermark": -1, "records": b""}
            found = b"".join(each for each in self.logs[name] if _end(each) > one["fetch_offset"])
            start, end = self.starts[name], self.end(name)
            error = 0 if start <= one["fetch_offset"] <= end else 1
            return {
                "partition_index": one["partition"],
                "error_code": error,
                "high_watermark": end,
                "log_start_offset": start,
                "records": found if not error else b"",
            }

        topics = [{**each, "partitions": [told(each, one) for one in each["partitions"]]} for each in request["topics"]]
        return {"error_code": 0, "session_id": 0, "responses": topics}

    def _produce(self, request: Tree) -> Tree:
        def told(asked: Tree, one: Tree) -> Tree:
            name = self._name(asked)
            if name is None:
                return {"index": one["index"], "error_code": 3, "base_offset": -1}
            if unpack_from(">q", one["records"])[0]:
                return {"index": one["index"], "error_code": 87, "base_offset": -1}
            return {"index": one["index"], "error_code": 0, "base_offset": self.append(name, one["records"])}

        topics = [
            {**each, "partition_responses": [told(each, one) for one in each["partition_data"]]}
            for each in request["topic_data"]
        ]
        return {"responses": topics}

    def _list_groups(self, request: Tree) -> Tree:
        groups = {group for group, _ in self.offsets} | self.kinds.keys()
        told = [
            {"group_id": each, "protocol_type": "consumer", "group_state": "Empty"}
            | {"group_type": self.kinds.get(each, "classic")}
            for each in sorted(groups)
        ]
        return {"error_code": 0, "groups": told}

    def _describe_groups(self, request: Tree) -> Tree:
        return {
            "groups": [
                {"error_code": 0, "group_id": each, "group_state": "Empty", "protocol_type": "", "protocol_data": ""}
                | {"members": []}
                for each in request["groups"]
            ]
        }

    def _consumer_group_describe(self, request: Tree) -> Tree:
        return {"groups": [{"error_code": 69, "group_id": each, "members": []} for each in request["group_ids"]]}

    def _find_coordinator(self, request: Tree) -> Tree:
        host, port = self.leaf.addresses[0]
        return {"error_code": 0, "node_id": 0, "host": host, "port": port}

    def _offset_fetch(self, request: Tree) -> Tree:
        def told(group: str, topics: Sequence[Any] | None) -> list[Tree]:
            if topics is None:
                topics = [{"name": name, "partition_indexes": [0]} for each, name in self.offsets if each == group]
            return [
                {
                    "name": each["name"],
                    "partitions": [
                        {
                            "partition_index": one,
                            "committed_offset": self.offsets.get((group, each["name"]), -1),
                            "committed_leader_epoch": -1,
                            "metadata": "",
                            "error_code": 0,
                        }
                        for one in each["partition_indexes"]
                    ],
                }
                for each in topics
            ]

        if "groups" in request:
            groups = request["groups"]
            return {
                "groups": [
                    {**each, "error_code": 0, "topics": told(each["group_id"], each["topics"])} for each in groups
                ]
            }
        return {"error_code": 0, "topics": told(request["group_id"], request["topics"])}

    def _offset_commit(self, request: Tree) -> Tree:
        group = request["group_id"]
        is_refused = group in self.members and not request["member_id"]
        if not is_refused:
            for each in request["topics"]:
                self.offsets[group, each["name"]] = each["partitions"][0]["committed_offset"]
        partitions = [{"partition_index": 0, "error_code": 25 if is_refused else 0}]
        return {"topics": [{"name": each["name"], "partitions": partitions} for each in request["topics"]]}


class MoveWorld:
    """The union, its clusters, and its moves. changed: how often clients were led elsewhere."""

    def __init__(self, made: UnionWorld, store: MemoryStore, clusters: tuple[Cluster, Cluster], hold: float) -> None:
        self.union = made
        self.eu, self.us = clusters
        self.store = store
        self.gate = WriteGate(made.runtime.clients, asyncio.get_running_loop().time)
        self.changed = 0
        self.not_free: set[str] = set()
        requests = made.runtime.requests
        self.moves = made.runtime.moves = Moves(
            "all", store, made.leaves, self.gate, self._is_free, self._lead, hold, lambda: 5.0
        )
        requests.follow(self.gate, self.moves.offset_of)

    def _is_free(self, path: str) -> bool:
        return path not in self.not_free

    def _lead(self, moves: Sequence[Move]) -> None:
        self.changed += 1
        self.union.runtime.change((), (), MovedNames(self.union.union, moves), self.union.leaves.ids)
        self.union.runtime.topics_moved([each.topic for each in moves])


@asynccontextmanager
async def moving(
    store: MemoryStore | None = None, kept: tuple[Cluster, Cluster] | None = None, hold: float = 5.0
) -> AsyncIterator[MoveWorld]:
    """kept: the state of the clusters before the process was killed."""
    async with union(RENAMED) as made:
        clusters = Cluster(made.eu), Cluster(made.us)
        for cluster, before in zip(clusters, kept or (), strict=False):
            cluster.logs, cluster.starts, cluster.offsets = before.logs, before.starts, before.offsets
            cluster.leaf.topics = before.leaf.topics
            cluster.on_create = before.on_create
        yield MoveWorld(made, store or MemoryStore(), clusters, hold)


def _end(data: bytes) -> int:
    base: int = unpack_from(">q", data)[0]
    delta: int = unpack_from(">i", data, 23)[0]
    return base + delta + 1

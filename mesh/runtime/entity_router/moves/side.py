"""One side of a move: the topic in its cluster, over the mesh's own connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from mesh.runtime.entity_router.asking import ask
from mesh.runtime.entity_router.leaves import RouterLeaf
from mesh.runtime.entity_router.side_links import SideLinks
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

FETCHED: Final = 4 << 20
"""The most bytes of one response of the source."""
PRODUCE_TIMEOUT: Final = 10.0
_EARLIEST, _LATEST = -2, -1
"""Timestamps of ListOffsets."""
_CONSUMER, _DEBUGGER = -1, -2
"""Replica ids. A debugger (-2) also gets records that are not on all replicas yet."""
_TOPIC: Final = 2
"""The resource type of a topic in DescribeConfigs."""
_ALL_REPLICAS: Final = -1
_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_ALREADY_THERE: Final = 36
_NOT_NOW: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})
_WITH_IDS: Final = 10
"""The first version of Metadata with topic ids."""


class SideUnavailable(Exception):
    """Raised when a side does not answer, or its answer is of no use now. It may be of use later."""


class SideMissing(Exception):
    """Raised when the topic or its route does not exist."""


class SideRefused(Exception):
    """Raised when a cluster refuses something that a move needs. code: Kafka's error code."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{what}: {_name(code)}{f': {message}' if message else ''}")
        self.code = code


class TopicLayout(NamedTuple):
    """The id of a topic, and its leaders, by partition."""

    id: UUID
    leaders: Mapping[int, int]


class PartitionFetchResult(NamedTuple):
    """The result of a Fetch. error: the error code of the partition."""

    error: int
    records: memoryview
    log_start: int
    high_watermark: int


class TopicSide:
    """A topic at one leaf. timeout: returns the seconds that its brokers have for a response."""

    def __init__(self, leaf: RouterLeaf, topic: str, timeout: Callable[[], float]) -> None:
        self.leaf: Final = leaf
        self.topic: Final = topic
        self._timeout: Final = timeout
        self.links: Final = SideLinks()
        self._layout: TopicLayout | None = None

    def close(self) -> None:
        self.links.close()

    def forget(self) -> None:
        """Forgets the id and the leaders, so that they are looked up again."""
        self._layout = None

    async def ask(
        self, api_key: ApiKey, version: int, request: Tree, node: int | None = None, waits: float = 0.0
    ) -> Tree:
        """Sends a request to a node of the cluster, and returns the response. node: None for any. Raises
        SideUnavailable."""
        answer = await ask(self.links, self.leaf, node, api_key, version, request, self._timeout(), waits)
        if answer is None:
            raise SideUnavailable(f"{self.leaf.path} has not answered {api_key.name}")
        return answer

    # The topic

    async def layout(self) -> TopicLayout:
        """The id and the leaders of the topic, kept until `forget`. Raises SideUnavailable, SideMissing."""
        if self._layout is None:
            request = {"topics": [{"name": self.topic}], "allow_auto_topic_creation": False}
            (topic,) = (await self.ask(ApiKey.METADATA, _WITH_IDS, request))["topics"]
            if topic["error_code"] in _GONE:
                raise SideMissing(f"{self.leaf.path} has no topic {self.topic}")
            leaders = {each["partition_index"]: each["leader_id"] for each in topic["partitions"]}
            if topic["error_code"] or min(leaders.values(), default=-1) < 0:
                raise SideUnavailable(f"{self.topic} at {self.leaf.path} has partitions without leaders")
            self._layout = TopicLayout(topic["topic_id"], leaders)
        return self._layout

    async def exists(self) -> bool:
        """Returns True if the cluster has the topic. Raises SideUnavailable."""
        try:
            await self.layout()
        except SideMissing:
            return False
        return True

    async def create(self, partitions: int, configs: Mapping[str, str], replicas: int) -> None:
        """Creates the topic. An existing topic stays unchanged. Raises SideUnavailable, SideRefused."""
        entries = [{"name": name, "value": value} for name, value in configs.items()]
        topic = {"name": self.topic, "num_partitions": partitions, "replication_factor": replicas, "configs": entries}
        answer = await self.ask(ApiKey.CREATE_TOPICS, 5, {"topics": [topic], "timeout_ms": 10_000}, waits=10.0)
        (made,) = answer["topics"]
        if made["error_code"] in _NOT_NOW:
            raise SideUnavailable(f"{self.leaf.path} has not created {self.topic}: {_name(made['error_code'])}")
        if made["error_code"] not in (ErrorCode.NONE, _ALREADY_THERE):
            raise SideRefused(f"create {self.topic} at {self.leaf.path}", made["error_code"], made["error_message"])

    async def delete(self) -> None:
        """Deletes the topic, if it exists. Raises SideUnavailable, SideRefused."""
        request = {"topic_names": [self.topic], "timeout_ms": 10_000}
        (result,) = (await self.ask(ApiKey.DELETE_TOPICS, 4, request, waits=10.0))["responses"]
        if result["error_code"] not in (ErrorCode.NONE, *_GONE):
            raise SideRefused(f"delete {self.topic} at {self.leaf.path}", result["error_code"])

    async def configs(self) -> dict[str, tuple[str | None, bool]]:
        """Returns the configurations: each value, and whether it was set for the topic itself. Raises SideUnavailable,
        SideRefused."""
        asked = {"resources": [{"resource_type": _TOPIC, "resource_name": self.topic, "configuration_keys": None}]}
        (result,) = (await self.ask(ApiKey.DESCRIBE_CONFIGS, 1, asked))["results"]
        if result["error_code"]:
            what = f"describe the configuration of {self.topic} at {self.leaf.path}"
            raise SideRefused(what, result["error_code"], result["error_message"])
        return {each["name"]: (each["value"], each["config_source"] == 1) for each in result["configs"]}

    # The offsets of the topic

    async def starts(self) -> list[int]:
        return await self._offsets(_EARLIEST, _CONSUMER)

    async def high_watermarks(self) -> list[int]:
        return await self._offsets(_LATEST, _CONSUMER)

    async def ends(self) -> list[int]:
        """Returns the ends of the logs, including records that are not on all replicas yet."""
        return await self._offsets(_LATEST, _DEBUGGER)

    async def _offsets(self, timestamp: int, replica: int) -> list[int]:
        """Returns offsets in the order of partitions. Raises SideUnavailable, SideMissing."""
        layout, found = await self.layout(), dict[int, int]()
        asking = []
        for leader, partitions in _by_leader(layout.leaders).items():
            asked = [{"partition_index": each, "timestamp": timestamp} for each in partitions]
            topics = [{"name": self.topic, "partitions": asked}]
            request = {"replica_id": replica, "isolation_level": 0, "topics": topics}
            asking.append(self.ask(ApiKey.LIST_OFFSETS, 3, request, leader))
        for answer in await asyncio.gather(*asking):
            for each in answer["topics"][0]["partitions"]:
                if each["error_code"]:
                    self.forget()
                    raise SideUnavailable(f"offsets of {self.topic} at {self.leaf.path}: {_name(each['error_code'])}")
                found[each["partition_index"]] = each["offset"]
        return [found[partition] for partition in sorted(found)]

    async def delete_before(self, offsets: Mapping[int, int]) -> None:
        """Deletes all records below these offsets. Raises SideUnavailable, SideMissing."""
        layout = await self.layout()
        for leader, partitions in _by_leader({each: layout.leaders[each] for each in offsets}).items():
            asked = [{"partition_index": each, "offset": offsets[each]} for each in partitions]
            request = {"topics": [{"name": self.topic, "partitions": asked}], "timeout_ms": 10_000}
            answer = await self.ask(ApiKey.DELETE_RECORDS, 1, request, leader, waits=10.0)
            for each in answer["topics"][0]["partitions"]:
                if each["error_code"]:
                    self.forget()
                    raise SideUnavailable(f"delete records of {self.topic}: {_name(each['error_code'])}")

    # The records of the topic

    async def fetch(self, partition: int, offset: int) -> PartitionFetchResult:
        """Fetches the next records of a partition. Raises SideUnavailable, SideMissing."""
        leader = (await self.layout()).leaders[partition]
        asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": FETCHED}
        request: dict[str, Any] = {
            "replica_id": _CONSUMER,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": FETCHED,
            "session_epoch": -1,
            "topics": [{"topic": self.topic, "partitions": [asked]}],
        }
        answer = await self.ask(ApiKey.FETCH, 11, request, leader)
        if answer["error_code"] or not answer["responses"]:
            raise SideUnavailable(f"fetch {self.topic} at {self.leaf.path}: {_name(answer['error_code'])}")
        (fetched,) = answer["responses"][0]["partitions"]
        records = memoryview(fetched["records"] or b"")
        return PartitionFetchResult(
            fetched["error_code"], records, fetched["log_start_offset"], fetched["high_watermark"]
        )

    async def produce(self, partition: int, batch: bytes) -> tuple[int, int]:
        """Writes a batch. Returns the error code and the offset. Raises SideUnavailable, after which the batch may
        still be written."""
        leader = (await self.layout()).leaders[partition]
        data = [{"name": self.topic, "partition_data": [{"index": partition, "records": batch}]}]
        request = {"acks": _ALL_REPLICAS, "timeout_ms": int(PRODUCE_TIMEOUT * 1000), "topic_data": data}
        answer = await self.ask(ApiKey.PRODUCE, 8, request, leader, waits=PRODUCE_TIMEOUT)
        (result,) = answer["responses"][0]["partition_responses"]
        return result["error_code"], result["base_offset"]

    def nodes(self) -> Sequence[int]:
        """The nodes of its cluster, as far as known."""
        return sorted(self.leaf.nodes.known)


def _by_leader(leaders: Mapping[int, int]) -> dict[int, Collection[int]]:
    found: dict[int, list[int]] = {}
    for partition, leader in leaders.items():
        found.setdefault(leader, []).append(partition)
    return {leader: sorted(each) for leader, each in found.items()}


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"

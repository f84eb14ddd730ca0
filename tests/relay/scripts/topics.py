"""Topics made, grown, moved, looked at and deleted."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.relay.sides import ASKED, OTHER, Side

_NOBODY = UUID(int=4711)
_UNKNOWN = "nobody-knows-it"
_PREFERRED, _UNCLEAN = 0, 1


def _metadata(side: Side, version: int) -> None:
    shared = {"name": side.shared.topic}

    def ask(*topics: Any, at: int = ASKED, **given: Any) -> None:
        side.ask("metadata", version, at, **{"topics": topics, **given})

    if version >= 1:
        side.ask("metadata", version, topics=None)
    for at in (ASKED, OTHER):
        ask(shared, at=at)
    ask()
    ask(shared, {"name": _UNKNOWN}, {"name": "in/valid"}, {"name": ""}, allow_auto_topic_creation=True)
    ask(shared, include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
    if version >= 10:
        ask({"name": None, "topic_id": side.shared.topic_id}, {"name": None, "topic_id": _NOBODY})
        ask({"name": None, "topic_id": None})


def _create_topics(side: Side, version: int) -> None:
    name = side.name(f"made-{version}")

    def ask(name: str, *, validate_only: bool = False, **given: Any) -> None:
        topic = {"name": name, "num_partitions": 2, "replication_factor": 1, **given}
        side.ask("create_topics", version, topics=[topic], timeout=10_000, validate_only=validate_only)

    configs = [{"name": "retention.ms", "value": "86400000"}]
    ask(name, validate_only=True, configs=configs)
    ask(name, configs=configs)
    ask(name)
    ask(side.name("wrong"), configs=[{"name": "no.such.key", "value": "1"}])
    ask(side.name("wrong"), configs=[{"name": "retention.ms", "value": None}])
    ask(side.name("wrong"), replication_factor=77)
    ask(side.name("wrong"), num_partitions=0)
    ask("in/valid")
    ask("")
    placed: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1}
    assigned = [{"partition_index": 0, "broker_ids": [ASKED, OTHER]}]
    ask(side.name(f"placed-{version}"), **placed, assignments=assigned)
    ask(side.name("wrong"), **placed, assignments=[{"partition_index": 0, "broker_ids": [77]}])
    side.ask("create_topics", version, topics=[], timeout=10_000)
    gone = [{"name": name} for name in (name, side.name(f"placed-{version}"))]
    side.prepare("delete_topics", 6, topics=gone, timeout=10_000)


def _delete_topics(side: Side, version: int) -> None:
    made = [{"name": side.name(f"gone-{each}"), "num_partitions": 1, "replication_factor": 1} for each in range(2)]
    created = side.prepare("create_topics", 7, topics=made, timeout=10_000)
    first, second = created.topics

    def ask(name: str | None, topic_id: UUID | None = None) -> None:
        topics = [{"name": name, "topic_id": topic_id}]
        side.ask("delete_topics", version, topics=topics, topic_names=[name] if name else [], timeout=10_000)

    ask(first.name)
    ask(first.name)
    ask(_UNKNOWN)
    ask("")
    if version >= 6:
        ask(None, second.topic_id)
        ask(None, _NOBODY)
        ask(second.name, second.topic_id)
    else:
        ask(second.name)


def _create_partitions(side: Side, version: int) -> None:
    name = side.name(f"grown-{version}")
    made = {"name": name, "num_partitions": 1, "replication_factor": 1}
    side.prepare("create_topics", 7, topics=[made], timeout=10_000)

    def ask(name: str, count: int, *places: list[int], validate_only: bool = False) -> None:
        topic = {"name": name, "count": count, "assignments": [{"broker_ids": each} for each in places] or None}
        side.ask("create_partitions", version, topics=[topic], timeout=10_000, validate_only=validate_only)

    ask(name, 2, validate_only=True)
    ask(name, 2)
    ask(name, 2)
    ask(name, 1)
    ask(name, 3, [OTHER])
    ask(name, 4, [77])
    ask(_UNKNOWN, 4)
    side.prepare("delete_topics", 6, topics=[{"name": name}], timeout=10_000)


def _describe_topic_partitions(side: Side, version: int) -> None:
    def ask(*names: str, limit: int = 2000, cursor: Any = None) -> None:
        topics = [{"name": each} for each in names]
        side.ask("describe_topic_partitions", version, topics=topics, response_partition_limit=limit, cursor=cursor)

    ask(side.shared.topic)
    ask(side.shared.topic, limit=1)
    ask(side.shared.topic, cursor={"topic_name": side.shared.topic, "partition_index": 1})
    ask(side.shared.topic, _UNKNOWN, "")
    ask(side.shared.topic, cursor={"topic_name": side.shared.topic, "partition_index": -7})
    ask(side.shared.topic, limit=0)
    ask()


def _elect_leaders(side: Side, version: int) -> None:
    for election_type in (_PREFERRED, _UNCLEAN, 7):
        for topic, *partitions in ((side.shared.topic, 0, 1, 99), (_UNKNOWN, 0)):
            chosen = [{"topic": topic, "partitions": partitions}]
            side.ask("elect_leaders", version, election_type=election_type, topic_partitions=chosen, timeout=10_000)
    side.ask("elect_leaders", version, topic_partitions=[], timeout=10_000)


def _alter_partition_reassignments(side: Side, version: int) -> None:
    def ask(topic: str, partition: int, *replicas: int, may_change: bool = True) -> None:
        chosen = [{"partition_index": partition, "replicas": replicas or None}]
        topics = [{"name": topic, "partitions": chosen}]
        values = {"topics": topics, "timeout": 10_000, "allow_replication_factor_change": may_change}
        side.ask("alter_partition_reassignments", version, **values)

    ask(side.topic, 17, ASKED)
    ask(side.topic, 17)
    ask(side.topic, 17, 77)
    ask(side.topic, 17, ASKED, ASKED)
    ask(side.topic, 99, ASKED)
    ask(_UNKNOWN, 0, ASKED)
    if version >= 1:
        ask(side.topic, 17, ASKED, OTHER, may_change=False)


def _list_partition_reassignments(side: Side, version: int) -> None:
    for topics in ([], None, [{"name": side.topic, "partition_indexes": [0, 99]}], [{"name": _UNKNOWN}]):
        side.ask("list_partition_reassignments", version, topics=topics, timeout=10_000)


SCRIPTS = {
    "metadata": _metadata,
    "create_topics": _create_topics,
    "delete_topics": _delete_topics,
    "create_partitions": _create_partitions,
    "describe_topic_partitions": _describe_topic_partitions,
    "elect_leaders": _elect_leaders,
    "alter_partition_reassignments": _alter_partition_reassignments,
    "list_partition_reassignments": _list_partition_reassignments,
}

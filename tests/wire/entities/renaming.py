"""Entities that all become others, and what becomes of a message of kio by them, without the programs under test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_type_hints
from uuid import UUID

from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.types import BrokerId, GroupId, ProducerId, TopicName, TransactionalId

from mesh.wire.apis import ApiKey
from mesh.wire.messages import Buffer
from tests.wire.entities import unfold

CONFIGS = {
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.LIST_CONFIG_RESOURCES,
}


class Renaming:
    """Renames each kind in its own way; clients cannot reach nodes whose ids are divisible by 3."""

    def node(self, node: int) -> int:
        return node ^ 0x5000

    def address(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        return (f"mesh-{host}", port ^ 1) if node % 3 else None

    def cluster_id(self, cluster_id: str) -> str:
        return f"cluster-{cluster_id}"

    def topic(self, name: str) -> str:
        return f"topic-{name}"

    def topic_id(self, topic_id: UUID) -> UUID:
        return UUID(int=topic_id.int ^ 1 << 100)

    def topic_pattern(self, pattern: str) -> str:
        return f"({pattern})"

    def partition(self, partition: int) -> int:
        return partition ^ 0x300

    def leader_epoch(self, epoch: int) -> int:
        return epoch ^ 0x301

    def record_epoch(self, epoch: int) -> int:
        return epoch ^ 0x302

    def end_epoch(self, epoch: int) -> int:
        return epoch ^ 0x303

    def end_offset(self, offset: int) -> int:
        return offset ^ 0x304

    def group(self, group_id: str) -> str:
        return f"group-{group_id}"

    def transactional_id(self, transactional_id: str) -> str:
        return transactional_id[1:]

    def transactional_id_pattern(self, pattern: str) -> str:
        return f"[{pattern}]"

    def producer(self, producer_id: int) -> int:
        return producer_id ^ 7

    def coordinator_key(self, key: str) -> str:
        return f"key-{key}"

    def subscription(self, subscription: memoryview) -> Buffer:
        return b"subscription-" + bytes(subscription)

    def assignment(self, assignment: memoryview) -> Buffer:
        return memoryview(bytes(assignment)[1:])


TO = Renaming()


def renamed(api_key: ApiKey, entity: Any) -> Any:
    """One of kio's entities with every entity in it renamed."""
    hints = get_type_hints(type(entity))
    values = {field.name: getattr(entity, field.name) for field in fields(entity)}
    if values.get("endpoint_type") == 2 and "brokers" in values:
        return replace(entity, cluster_id=TO.cluster_id(values["cluster_id"]))
    told = {name: _field(api_key, name, unfold(hints[name])[0], value, values) for name, value in values.items()}
    if "port" in values and not any(name in values for name in ("listeners", "name")):
        told |= _address(api_key, values)
    return replace(entity, **told)


def _address(api_key: ApiKey, values: Mapping[str, Any]) -> Mapping[str, Any]:
    node = values.get("node_id", values.get("broker_id"))
    if node is None or node < 0 or not values["host"]:
        return {}
    address = TO.address(node, values["host"], values["port"])
    if address is not None:
        return {"host": address[0], "port": address[1]}
    assert api_key is ApiKey.FIND_COORDINATOR
    return {"node_id": -1, "host": "", "port": -1, "error_code": KioErrorCode.coordinator_not_available}


def _field(api_key: ApiKey, name: str, item: type, value: Any, siblings: Mapping[str, Any]) -> Any:
    if isinstance(value, tuple):
        values = (_field(api_key, name, item, one, siblings) for one in value if not _is_unreachable(api_key, one))
        return tuple(values)
    if value is None:
        return None
    if is_dataclass(value):
        return renamed(api_key, value)
    return _value(api_key, name, item, value, siblings)


def _is_unreachable(api_key: ApiKey, element: Any) -> bool:
    node = getattr(element, "node_id", getattr(element, "broker_id", -1))
    if api_key is ApiKey.FIND_COORDINATOR or not hasattr(element, "port") or node < 0 or not element.host:
        return False
    return TO.address(node, element.host, element.port) is None


def _value(api_key: ApiKey, name: str, item: type, value: Any, siblings: Mapping[str, Any]) -> Any:
    if item is BrokerId or name in ("voter_id", "leader_id"):
        return TO.node(value) if value >= 0 else value
    if item is ProducerId:
        return TO.producer(value) if value >= 0 else value
    by_type = {TopicName: TO.topic, GroupId: TO.group, TransactionalId: TO.transactional_id}
    if item in by_type:
        return by_type[item](value)
    if isinstance(value, UUID):
        return TO.topic_id(value) if name == "topic_id" else value
    if isinstance(value, str):
        return _text(api_key, name, value, siblings)
    if isinstance(value, bytes) and api_key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.DESCRIBE_GROUPS):
        return bytes(TO.subscription(memoryview(value)) if "metadata" in name else TO.assignment(memoryview(value)))
    return value


def _text(api_key: ApiKey, name: str, value: str, siblings: Mapping[str, Any]) -> str:
    match name:
        case "cluster_id":
            return TO.cluster_id(value)
        case "subscribed_topic_regex" | "source_topic_regex":
            return TO.topic_pattern(value)
        case "transactional_id_pattern":
            return TO.transactional_id_pattern(value)
        case "key" | "coordinator_keys" if api_key is ApiKey.FIND_COORDINATOR:
            if "node_id" in siblings:
                return TO.coordinator_key(value)
            by_type = {0: TO.group, 1: TO.transactional_id}
            return by_type.get(siblings.get("key_type", 0), str)(value)
        case "resource_name" if api_key in CONFIGS:
            return _resource(siblings.get("resource_type", 16), value)
        case _:
            return value


def _resource(resource_type: int, name: str) -> str:
    match resource_type:
        case 2:
            return TO.topic(name)
        case 4 | 8:
            return str(TO.node(int(name))) if name.isdecimal() and name.isascii() else name
        case 32:
            return TO.group(name)
        case _:
            return name

"""New fields and APIs of Kafka 4.4 that kio 0.6.5 does not know, written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from tests.relay.requests import KEYS, request
from tests.relay.scripts.membership import leave, stable
from tests.relay.scripts.newer_groups import MEMBER, joining_streams
from tests.relay.scripts.transactions import begun, ended
from tests.relay.sides import ASKED, OTHER, Side

_LEAVES = -1
_NOBODY = UUID(int=4711)
_NONE = b"\0"
"""No tagged fields; also a null text."""


def _text(text: str) -> bytes:
    encoded = text.encode()
    assert len(encoded) < 126, "a length of one byte"
    return bytes([len(encoded) + 1]) + encoded


def _many(*elements: bytes) -> bytes:
    return bytes([len(elements) + 1]) + b"".join(elements)


def _number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def _ask(side: Side, api: str, version: int, key: int, *body: bytes, at: int = ASKED) -> None:
    head = _number(key, 2) + _number(version, 2) + _number(side.correlation_id) + b"\0\6asking" + _NONE
    asked = head + b"".join(body)
    side.ask_bytes(api, version, asked, at)


def _api_versions(side: Side, version: int) -> None:
    software = _text("kafka-mesh") + _text("1.0")
    for cluster, node in (
        (_text(side.shared.cluster_id), ASKED),
        (_text("another"), ASKED),
        (_text(side.shared.cluster_id), OTHER),
        (_NONE, ASKED),
        (_text(side.shared.cluster_id), -1),
        (_NONE, -1),
    ):
        _ask(side, "api_versions", version, KEYS["api_versions"], software, cluster, _number(node), _NONE)


def _delete_groups(side: Side, version: int) -> None:
    group = side.name("deleted-with-a-text")
    member = stable(side, group)

    def ask(*names: str) -> None:
        _ask(side, "delete_groups", version, KEYS["delete_groups"], _many(*map(_text, names)), _NONE)

    ask(group)
    leave(side, group, member.member_id)
    ask(group)
    ask(side.name("no-group"))
    ask()


def _txn_offset_commit(side: Side, version: int) -> None:
    me = begun(side, "commits-by-id")
    group = side.name("commits-by-id")
    side.prepare_until("add_offsets_to_txn", 3, **me, group_id=group)
    assert side.topic_id is not None

    def ask(topic_id: UUID, *, epoch: int = me["producer_epoch"], member: str = "") -> None:
        partition = _number(0) + _number(1, 8) + _number(-1) + _text("m") + _NONE
        topic = topic_id.bytes + _many(partition) + _NONE
        producer = _text(me["transactional_id"]) + _text(group) + _number(me["producer_id"], 8) + _number(epoch, 2)
        body = producer + _number(-1) + _text(member) + _NONE + _many(topic) + _NONE
        _ask(side, "txn_offset_commit", version, KEYS["txn_offset_commit"], body)

    ask(side.topic_id)
    ask(_NOBODY)
    ask(side.topic_id, epoch=7)
    ask(side.topic_id, member="nobody")
    ended(side, me, is_committed=True)
    side.prepare("delete_groups", 2, groups_names=[group])


def _streams_group_heartbeat(side: Side, version: int) -> None:
    """The request equals version 0; only the answer has more."""
    key, group = KEYS["streams_group_heartbeat"], side.name("streams-with-a-description")

    def ask(**given: object) -> None:
        values = {"group_id": group, "member_id": MEMBER, "rebalance_timeout": -1, **given}
        asked = request(key, 0, values, side.correlation_id)
        side.ask_bytes("streams_group_heartbeat", version, asked[:2] + _number(version, 2) + asked[4:])

    ask(**joining_streams(side))
    ask(member_epoch=99)
    _describe_topology(side, group)
    ask(member_epoch=_LEAVES)


def _streams_group_describe(side: Side, version: int) -> None:
    group = side.name("described-with-a-topology")
    member = {"group_id": group, "member_id": MEMBER}
    side.prepare("streams_group_heartbeat", 0, **member, **joining_streams(side))
    for has_topology in (0, 1):
        names = _many(_text(group), _text(side.name("no-group")))
        key = KEYS["streams_group_describe"]
        _ask(side, "streams_group_describe", version, key, names, bytes([0, has_topology]), _NONE)
    side.prepare("streams_group_heartbeat", 0, group_id=group, member_id=MEMBER, member_epoch=_LEAVES)


def _describe_topology(side: Side, group: str, version: int = 0) -> None:
    def node(name: str, kind: int, *topics: str) -> bytes:
        return _text(name) + _number(kind, 1) + _many(*map(_text, topics)) + _NONE + _many() + _many() + _NONE

    subtopology = _text("0") + _many(node("source", 1, side.topic)) + _NONE
    described = _many(subtopology) + _many() + _NONE
    for epoch in (1, 7):
        body = _text(group) + _text(MEMBER) + _number(epoch) + described + _NONE
        _ask(side, "streams_group_topology_description_update", version, 93, body)


def _topology_description(side: Side, version: int) -> None:
    _describe_topology(side, side.name("no-group"), version)


def _unregister_controller(side: Side, version: int) -> None:
    for node in (77, -1):
        _ask(side, "unregister_controller", version, 94, _number(node), _NONE)


NEWER: Mapping[tuple[str, int], Callable[[Side, int], None]] = {
    ("api_versions", 5): _api_versions,
    ("delete_groups", 3): _delete_groups,
    ("txn_offset_commit", 6): _txn_offset_commit,
    ("streams_group_heartbeat", 1): _streams_group_heartbeat,
    ("streams_group_describe", 1): _streams_group_describe,
    ("streams_group_topology_description_update", 0): _topology_description,
    ("unregister_controller", 0): _unregister_controller,
}
"""By API and version."""

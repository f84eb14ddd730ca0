"""Commits of groups, and their coordinators."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.relay.scripts.membership import leave, stable, who
from tests.relay.sides import ASKED, OTHER, Side, spelt

_NOBODY = UUID(int=4711)
_UNKNOWN = "nobody-knows-it"
_GROUP, _TRANSACTION, _SHARE = 0, 1, 2


def _topic(side: Side, *partitions: dict[str, Any], is_known: bool = True) -> dict[str, Any]:
    name, topic_id = (side.shared.topic, side.shared.topic_id) if is_known else (_UNKNOWN, _NOBODY)
    usual = {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": -1, "committed_metadata": "m"}
    return {"name": name, "topic_id": topic_id, "partitions": [{**usual, **each} for each in partitions or ({},)]}


def _offset_commit(side: Side, version: int) -> None:
    group = side.name(f"commit-{version}")

    def ask(*topics: dict[str, Any], at: int = ASKED, **given: Any) -> None:
        nobody = {"generation_id_or_member_epoch": -1, "retention_time": -1}
        values = {"group_id": group, **nobody, "topics": topics, **given}
        side.ask("offset_commit", version, at, **values)

    ask(_topic(side))
    ask(_topic(side, {}, {"partition_index": 99}), _topic(side, is_known=False))
    ask(_topic(side, {"committed_metadata": None, "committed_offset": -7}, {"committed_metadata": "m" * 5000}))
    ask(_topic(side), member_id="nobody")
    ask(_topic(side), group_id="")
    ask(_topic(side), at=OTHER)
    member = stable(side, group)
    generation = {"generation_id_or_member_epoch": member.generation_id}
    ask(_topic(side))
    ask(_topic(side), member_id=member.member_id, **generation)
    ask(_topic(side), member_id=member.member_id, group_instance_id="instance", **generation)
    ask(_topic(side), member_id=member.member_id)
    leave(side, group, member.member_id)


def _committed(side: Side, group: str) -> None:
    topics = [_topic(side, {}, {"partition_index": 2})]
    nobody = {"generation_id_or_member_epoch": -1, "member_id": ""}
    side.prepare("offset_commit", 8, group_id=group, **nobody, topics=topics)


def _offset_fetch(side: Side, version: int) -> None:
    group = side.name(f"committed-{version}")
    _committed(side, group)

    def ask(*groups: Any, at: int = ASKED, require_stable: bool = False) -> None:
        (group_id, topics), *_ = groups
        several = [{"group_id": name, "topics": chosen} for name, chosen in groups]
        several[-1] |= {"member_id": "nobody", "member_epoch": 3} if len(several) > 2 else {}
        values = {"group_id": group_id, "topics": topics, "groups": several, "require_stable": require_stable}
        side.ask("offset_fetch", version, at, **values)

    known = {"name": side.shared.topic, "topic_id": side.shared.topic_id, "partition_indexes": [0, 1, 2, 99]}
    unknown = {"name": _UNKNOWN, "topic_id": _NOBODY, "partition_indexes": [0]}
    for require_stable in (False, True):
        ask((group, [known]), require_stable=require_stable)
    if version >= 2:
        ask((group, None))
    ask((group, [known, unknown]))
    ask((group, []))
    ask((side.name("no-group"), [known]))
    ask((group, [known]), (side.name("no-group"), []), (group, [unknown]))
    ask((group, [known]), at=OTHER)


def _find_coordinator(side: Side, version: int) -> None:
    def ask(*keys: str, key_type: int = _GROUP, at: int = ASKED) -> None:
        values = {"key": keys[0], "coordinator_keys": keys, "key_type": key_type}
        side.ask("find_coordinator", version, at, **values)

    for at in (ASKED, OTHER):
        ask("a-group", at=at)
    ask("a-transaction", key_type=_TRANSACTION)
    ask("a-group", "another", "")
    ask("")
    ask("a-group", key_type=7)
    ask("a-group", key_type=_SHARE)
    ask(f"a-group:{spelt(side.shared.topic_id)}:0", key_type=_SHARE)


def _offset_delete(side: Side, version: int) -> None:
    group = side.name("offset-delete")
    _committed(side, group)

    def ask(group: str, topic: str, *partitions: int) -> None:
        named = {"name": topic, "partitions": [{"partition_index": each} for each in partitions]}
        side.ask("offset_delete", version, group_id=group, topics=[named])

    ask(group, side.shared.topic, 0)
    ask(group, side.shared.topic, 0, 99)
    ask(group, _UNKNOWN, 0)
    ask(side.name("no-group"), side.shared.topic, 0)
    member = stable(side, side.name("offset-delete-busy"))
    ask(side.name("offset-delete-busy"), side.shared.topic, 0)
    side.ask("heartbeat", 4, group_id=side.name("offset-delete-busy"), **who(member))
    leave(side, side.name("offset-delete-busy"), member.member_id)


SCRIPTS = {
    "offset_commit": _offset_commit,
    "offset_fetch": _offset_fetch,
    "find_coordinator": _find_coordinator,
    "offset_delete": _offset_delete,
}

"""Groups whose members only send heartbeats: those of KIP-848, and streams groups."""

from __future__ import annotations

from typing import Any

from tests.relay.sides import ASKED, OTHER, Side

_LEAVES = -1
MEMBER = "bWVtYmVyLW9mLXRlc3RzIQ"
"""The clients choose the ids of these members."""


def _consumer_group_heartbeat(side: Side, version: int) -> None:
    group = side.name(f"consumers-{version}")

    def ask(at: int = ASKED, **given: Any) -> Any:
        values = {"group_id": group, "member_id": MEMBER, "rebalance_timeout": -1, **given}
        return side.ask("consumer_group_heartbeat", version, at, **values)

    joining: dict[str, Any] = {"member_epoch": 0, "rebalance_timeout": 60_000, "topic_partitions": []}
    answer = ask(**joining, subscribed_topic_names=[side.topic])
    owned = answer.assignment.topic_partitions if answer.assignment else ()
    partitions = [{"topic_id": each.topic_id, "partitions": each.partitions} for each in owned]
    ask(member_epoch=answer.member_epoch, topic_partitions=partitions)
    ask(member_epoch=answer.member_epoch)
    ask(member_epoch=99)
    ask(member_epoch=answer.member_epoch, member_id="nobody")
    ask(**joining, subscribed_topic_names=[side.topic], server_assignor="no assignor", member_id="another")
    ask(**joining, subscribed_topic_names=[side.topic], at=OTHER)
    ask(**joining, subscribed_topic_names=[side.topic], group_id="")
    if version >= 1:
        regular = side.name("by-expression")
        ask(**joining, subscribed_topic_regex="(", group_id=regular)
        ask(**joining, subscribed_topic_regex=side.name("no.*"), group_id=regular)
        ask(member_epoch=_LEAVES, group_id=regular)
    else:
        made = ask(**joining, subscribed_topic_names=[side.topic], member_id="", group_id=side.name("named-by-it"))
        ask(member_epoch=_LEAVES, member_id=made.member_id or MEMBER, group_id=side.name("named-by-it"))
    ask(member_epoch=_LEAVES)
    ask(member_epoch=_LEAVES)


def _consumer_group_describe(side: Side, version: int) -> None:
    group = side.name(f"described-consumers-{version}")
    member = {"group_id": group, "member_id": MEMBER, "member_epoch": 0, "rebalance_timeout": 60_000}
    side.prepare("consumer_group_heartbeat", 1, **member, subscribed_topic_names=[side.topic], topic_partitions=[])
    for is_authorized in (False, True):
        names = [group, side.name("no-group")]
        side.ask("consumer_group_describe", version, group_ids=names, include_authorized_operations=is_authorized)
    side.prepare("consumer_group_heartbeat", 1, **{**member, "member_epoch": _LEAVES})
    side.ask("consumer_group_describe", version, group_ids=[group, ""])


def _streams_group_heartbeat(side: Side, version: int) -> None:
    group = side.name(f"streams-{version}")

    def ask(**given: Any) -> Any:
        values = {"group_id": group, "member_id": MEMBER, "rebalance_timeout": -1, **given}
        return side.ask("streams_group_heartbeat", version, **values)

    answer = ask(**joining_streams(side))
    ask(member_epoch=answer.member_epoch)
    ask(member_epoch=answer.member_epoch, member_id="nobody")
    ask(member_epoch=99)
    ask(**joining_streams(side, topic="nobody-knows-it"), group_id=side.name("without-its-topic"))
    ask(member_epoch=_LEAVES, group_id=side.name("without-its-topic"))
    ask(**{**joining_streams(side), "topology": None})
    ask(**joining_streams(side), group_id="")
    ask(member_epoch=_LEAVES)


def _streams_group_describe(side: Side, version: int) -> None:
    group = side.name(f"described-streams-{version}")
    member = {"group_id": group, "member_id": MEMBER}
    side.prepare("streams_group_heartbeat", 0, **member, **joining_streams(side))
    for is_authorized in (False, True):
        names = [group, side.name("no-group")]
        side.ask("streams_group_describe", version, group_ids=names, include_authorized_operations=is_authorized)
    side.prepare("streams_group_heartbeat", 0, **member, member_epoch=_LEAVES, rebalance_timeout=-1)
    side.ask("streams_group_describe", version, group_ids=[group, ""])


def joining_streams(side: Side, topic: str | None = None) -> dict[str, Any]:
    stored = {"name": side.name("changelog"), "topic_configs": [{"key": "cleanup.policy", "value": "compact"}]}
    subtopology = {
        "subtopology_id": "0",
        "source_topics": [topic or side.topic],
        "state_changelog_topics": [stored],
    }
    return {
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "topology": {"epoch": 1, "subtopologies": [subtopology]},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "a-process",
        "user_endpoint": {"host": "an-application", "port": 8080},
        "client_tags": [{"key": "zone", "value": "a"}],
    }


SCRIPTS = {
    "consumer_group_heartbeat": _consumer_group_heartbeat,
    "consumer_group_describe": _consumer_group_describe,
    "streams_group_heartbeat": _streams_group_heartbeat,
    "streams_group_describe": _streams_group_describe,
}

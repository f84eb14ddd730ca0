"""Membership of classic groups, and the tools' view of them."""

from __future__ import annotations

from typing import Any

from tests.relay.scripts.membership import ASSIGNMENT, JOINING, SUBSCRIPTION, joined, leave, stable, who
from tests.relay.sides import ASKED, OTHER, Side

_NOBODY = "nobody"


def _join_group(side: Side, version: int) -> None:
    group = side.name(f"join-{version}")

    def ask(at: int = ASKED, **given: Any) -> Any:
        values = {"group_id": group, **JOINING, "reason": "asked to", **given}
        return side.ask("join_group", version, at, **values)

    answer = ask()
    # From v4 on the first answer only gives the member id.
    again = ask(member_id=answer.member_id)
    ask(member_id=_NOBODY)
    ask(member_id=again.member_id, protocol_type="connect")
    ask(member_id=again.member_id, protocols=[])
    ask(session_timeout=1)
    ask(group_id="")
    ask(at=OTHER)
    leave(side, group, again.member_id)
    if version >= 5:
        static = side.name(f"static-{version}")
        answer = ask(group_id=static, group_instance_id="instance")
        ask(group_id=static, group_instance_id="instance", member_id=_NOBODY)
        leave(side, static, answer.member_id)


def _sync_group(side: Side, version: int) -> None:
    group = side.name(f"sync-{version}")
    member = joined(side, group)

    def ask(**given: Any) -> None:
        named = {"group_id": group, **who(member), "protocol_type": "consumer", "protocol_name": "range"}
        side.ask("sync_group", version, **{**named, **given})

    ask(protocol_name="sticky")
    ask(assignments=[{"member_id": member.member_id, "assignment": ASSIGNMENT}])
    ask()
    ask(generation_id=7)
    ask(member_id=_NOBODY)
    ask(group_id=side.name("no-group"))
    ask(group_instance_id="instance")
    leave(side, group, member.member_id)


def _heartbeat(side: Side, version: int) -> None:
    group = side.name(f"heartbeat-{version}")
    member = stable(side, group)

    def ask(**given: Any) -> None:
        side.ask("heartbeat", version, **{"group_id": group, **who(member), **given})

    ask()
    ask(generation_id=7)
    ask(member_id=_NOBODY)
    ask(group_id=side.name("no-group"))
    ask(group_instance_id="instance")
    leave(side, group, member.member_id)
    ask()


def _leave_group(side: Side, version: int) -> None:
    group = side.name(f"leave-{version}")
    member_id = stable(side, group).member_id

    def ask(member_id: str, group_id: str = group) -> None:
        members = [{"member_id": member_id, "reason": "asked to"}, {"member_id": _NOBODY, "group_instance_id": "i"}]
        side.ask("leave_group", version, group_id=group_id, member_id=member_id, members=members)

    ask(_NOBODY)
    ask(member_id, side.name("no-group"))
    ask(member_id)
    ask(member_id)


def _describe_groups(side: Side, version: int) -> None:
    group = side.name(f"describe-{version}")
    member = joined(side, group)
    names = [group, side.name("no-group"), ""]

    def ask(*groups: str, is_authorized: bool = False) -> None:
        side.ask("describe_groups", version, groups=groups, include_authorized_operations=is_authorized)

    _until(side, group, "CompletingRebalance")
    ask(group)
    assignments = [{"member_id": member.member_id, "assignment": SUBSCRIPTION}]
    side.prepare_until("sync_group", 3, group_id=group, **who(member), assignments=assignments)
    _until(side, group, "Stable")
    for is_authorized in (False, True):
        ask(*names, is_authorized=is_authorized)
    leave(side, group, member.member_id)
    _until(side, group, "Empty")
    ask(group)


def _until(side: Side, group: str, state: str) -> None:
    """Waits until the group has this state: a coordinator shows only what its replicas have."""
    side.until("describe_groups", 5, lambda answer: answer.groups[0].group_state == state, groups=[group])


def _list_groups(side: Side, version: int) -> None:
    for states in ([], ["Empty"], ["no state"], ["Stable", "Dead"]):
        for types in ([], ["Consumer"], ["classic"], ["no type"]):
            side.ask("list_groups", version, states_filter=states, types_filter=types)


def _delete_groups(side: Side, version: int) -> None:
    group = side.name(f"delete-{version}")
    member = stable(side, group)
    side.ask("delete_groups", version, groups_names=[group])
    leave(side, group, member.member_id)
    for names in ([group], [group], [side.name("no-group")]):
        side.ask("delete_groups", version, groups_names=names)


SCRIPTS = {
    "join_group": _join_group,
    "sync_group": _sync_group,
    "heartbeat": _heartbeat,
    "leave_group": _leave_group,
    "describe_groups": _describe_groups,
    "list_groups": _list_groups,
    "delete_groups": _delete_groups,
}

from __future__ import annotations

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, joined
from tests.pool.apis.sharing import share_member
from tests.pool.harness import GROUP, ORDERS, source


def test_describes_share_members_only() -> None:
    mesh = Mesh()
    share_member(mesh)
    joined(mesh, "classic")
    (group,) = Client(mesh, "tool").ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=(GROUP,)).groups
    assert (group.error_code, group.group_state, group.group_epoch) == (0, "Stable", 1)
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.subscribed_topic_names) == ("s-1", 1, (ORDERS,))
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_name, topic.partitions) == (ORDERS, (0, 1, 2, 3))


def test_a_group_without_share_members_is_none() -> None:
    mesh = Mesh()
    joined(mesh)
    (group,) = Client(mesh, "tool").ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=(GROUP,)).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.error_message


def test_a_group_that_has_committed_and_has_no_members_is_empty() -> None:
    mesh = Mesh()
    asked = Client(mesh, "tool")
    (group,) = asked.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=("other",)).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    mesh.upstreams[GROUP].stored[source(0)] = 5
    (group,) = asked.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=(GROUP,)).groups
    assert (group.error_code, group.group_state, group.members) == (0, "Empty", ())


def test_listed_under_each_type_that_its_members_have() -> None:
    mesh = Mesh()
    share_member(mesh)
    tool = Client(mesh, "tool")

    def types() -> list[str]:
        return [each.group_type for each in tool.ask(ApiKey.LIST_GROUPS, 5).groups]

    assert types() == ["share"]
    joined(mesh, "classic")
    assert types() == ["classic", "share"]
    only = tool.ask(ApiKey.LIST_GROUPS, 5, types_filter=("share",)).groups
    assert [(each.group_type, each.protocol_type) for each in only] == [("share", "share")]

from __future__ import annotations

from typing import Any

import pytest

from mesh.pool.common.settings import PoolSettings, ShareSettings
from mesh.pool.groups.share_protocol import SESSION_TIMEOUT
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import Client, Mesh, joined
from tests.pool.apis.sharing import heartbeat_values
from tests.pool.harness import EU, GROUP, ORDERS

HEARTBEAT = ApiKey.SHARE_GROUP_HEARTBEAT


def beat(client: Client, **changes: Any) -> Any:
    return client.ask(HEARTBEAT, 1, **heartbeat_values(**changes))


def test_a_life() -> None:
    mesh = Mesh()
    client = Client(mesh)
    first = beat(client)
    assert (first.error_code, first.member_id, first.member_epoch) == (0, "s-1", 1)
    (assigned,) = first.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (mesh.cluster.topics.topic_id(ORDERS), (0, 1, 2, 3))
    again = beat(client, member_epoch=1, subscribed_topic_names=None)
    assert (again.error_code, again.member_epoch, again.assignment) == (0, 1, None)
    gone = beat(client, member_epoch=-1, subscribed_topic_names=None)
    assert (gone.error_code, gone.member_epoch) == (0, -1)
    assert not mesh.pool.members.by_id


def test_new_partitions_raise_its_epoch() -> None:
    mesh = Mesh()
    client = Client(mesh)
    beat(client)
    mesh.do(mesh.cluster.topics_changed(EU, {ORDERS: 3}, mesh.now))
    told = beat(client, member_epoch=1, subscribed_topic_names=None)
    assert (told.member_epoch, told.assignment.topic_partitions[0].partitions) == (2, (0, 1, 2, 3, 4))
    lost = beat(client, member_epoch=1, subscribed_topic_names=None)
    assert (lost.error_code, lost.member_epoch) == (0, 2), "the answer was lost"
    assert lost.assignment is not None


@pytest.mark.parametrize("epoch", [2, 7])
def test_another_epoch_is_fenced(epoch: int) -> None:
    client = Client(Mesh())
    beat(client)
    assert beat(client, member_epoch=epoch).error_code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("epoch", [1, -1])
def test_an_unknown_share_member(epoch: int) -> None:
    client = Client(Mesh())
    assert beat(client, member_epoch=epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    beat(client, member_id="another")
    assert beat(client, member_epoch=epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "changes",
    [
        {"group_id": ""},
        {"member_id": ""},
        {"member_epoch": -2},
        {"rack_id": ""},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": ()},
        {"subscribed_topic_names": tuple(f"{n}{'x' * 30_000}" for n in range(10))},
    ],
)
def test_what_is_no_heartbeat(changes: dict[str, Any]) -> None:
    answer = beat(Client(Mesh()), **changes)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message


def test_a_member_of_another_kind_is_none_of_this_protocol() -> None:
    mesh = Mesh()
    classic = joined(mesh)
    assert beat(classic, member_id=classic.member_id, member_epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(classic, member_id=classic.member_id).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    share = Client(mesh, "share")
    beat(share)
    assert share.join(member_id="s-1").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    values = {
        "member_epoch": 1,
        "rebalance_timeout": 1_000,
        "subscribed_topic_names": (ORDERS,),
        "topic_partitions": (),
    }
    answer = share.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id="shop", member_id="s-1", **values)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_gone_after_its_session() -> None:
    mesh = Mesh()
    beat(Client(mesh))
    mesh.advance(SESSION_TIMEOUT - 1)
    assert mesh.pool.members.by_id
    mesh.advance(2)
    assert not mesh.cluster.pools or not mesh.pool.members.by_id


UNMIXED = PoolSettings(share=ShareSettings(is_mixed=False))


def test_members_of_other_kinds_are_refused_where_groups_are_not_mixed() -> None:
    mesh = Mesh(UNMIXED)
    assert beat(Client(mesh)).error_code == 0
    assert Client(mesh).join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    values = {"member_id": "m", "member_epoch": 0, "rebalance_timeout": 1_000, "topic_partitions": ()}
    consumer = {"group_id": GROUP, "subscribed_topic_names": (ORDERS,), **values}
    assert Client(mesh).ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert beat(Client(mesh), member_id="s-2").error_code == 0


def test_share_members_are_refused_by_a_group_of_others_where_groups_are_not_mixed() -> None:
    mesh = Mesh(UNMIXED)
    joined(mesh)
    assert beat(Client(mesh)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    mixed = Mesh()
    joined(mixed)
    assert beat(Client(mixed)).error_code == 0

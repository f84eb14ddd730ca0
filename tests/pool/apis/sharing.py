"""Requests of share members, as the values of kio's requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mesh.wire.apis import ApiKey
from tests.pool.apis.harness import Client, Mesh
from tests.pool.harness import GROUP, ORDERS

MEMBER = "s-1"


def heartbeat_values(**changes: Any) -> dict[str, Any]:
    """The heartbeat of a member that joins."""
    return {
        "group_id": GROUP,
        "member_id": MEMBER,
        "member_epoch": 0,
        "rack_id": None,
        "subscribed_topic_names": (ORDERS,),
        **changes,
    }


def topics(mesh: Mesh, partitions: Mapping[int, Iterable[tuple[int, int, tuple[int, ...]]]]) -> tuple[Any, ...]:
    """Partitions, and the acknowledgements for them: first, last, types."""
    return (
        {
            "topic_id": mesh.cluster.topics.topic_id(ORDERS),
            "partitions": tuple(
                {
                    "partition_index": number,
                    "acknowledgement_batches": tuple(
                        {"first_offset": first, "last_offset": last, "acknowledge_types": types}
                        for first, last, types in batches
                    ),
                }
                for number, batches in partitions.items()
            ),
        },
    )


def fetch_values(epoch: int, **changes: Any) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "member_id": MEMBER,
        "share_session_epoch": epoch,
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 500,
        "batch_size": 500,
        "share_acquire_mode": 0,
        "is_renew_ack": False,
        "topics": (),
        "forgotten_topics_data": (),
        **changes,
    }


def acknowledge_values(epoch: int, **changes: Any) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "member_id": MEMBER,
        "share_session_epoch": epoch,
        "is_renew_ack": False,
        "topics": (),
        **changes,
    }


def share_member(mesh: Mesh) -> Client:
    """A share member that has joined, and opened a session of all partitions."""
    client = Client(mesh)
    assert client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **heartbeat_values()).error_code == 0
    opened = fetch_values(0, max_wait=0, topics=topics(mesh, dict.fromkeys(range(4), ())))
    assert client.ask(ApiKey.SHARE_FETCH, 2, **opened).error_code == 0
    mesh.assign_all()
    return client

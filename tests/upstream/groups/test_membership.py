"""librdkafka's reports of its membership. The mesh parses their format, so a test also runs a real librdkafka."""

from __future__ import annotations

import sys

import pytest
from confluent_kafka import Consumer

from mesh.upstream.groups.membership import membership_of
from mesh.wire.client.commits import GroupMembership

FIVE = (5).to_bytes(4, sys.byteorder)


def test_a_dynamic_member_and_a_static_one() -> None:
    assert membership_of(b"CGMDv2:" + FIVE + b"billing\0m-1\0\1") == GroupMembership("billing", 5, "m-1", None)
    static = membership_of(b"CGMDv2:" + FIVE + b"billing\0m-1\0\0mesh-1\0")
    assert static == GroupMembership("billing", 5, "m-1", "mesh-1")


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"CGMDv2:",
        b"CGMDv3:" + FIVE + b"g\0m\0\1",
        b"CGMDv2:\xff\xff\xff\xffg\0m\0\1",
        b"CGMDv2:" + FIVE + b"g\0\0\1",
        b"CGMDv2:" + FIVE + b"g\0m\0",
        b"CGMDv2:" + FIVE + b"g\0m\0\2",
        b"CGMDv2:" + FIVE + b"g\0m\0\1more",
        b"CGMDv2:" + FIVE + b"g\0m\0\0",
        b"CGMDv2:" + FIVE + b"g\0m\0\0i",
        b"CGMDv2:" + FIVE + b"g\0m\0\0i\0more",
    ],
)
def test_what_is_not_understood_is_no_membership(metadata: bytes) -> None:
    assert membership_of(metadata) is None


@pytest.mark.parametrize("static", [{}, {"group.instance.id": "mesh-1"}])
def test_the_librdkafka_of_the_lock_file_writes_it_so(static: dict[str, str]) -> None:
    """It is in no group here, but all other parts are there."""
    quiet = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    consumer = Consumer({**quiet, "group.id": "billing", **static})
    written = consumer.consumer_group_metadata()
    consumer.close()
    assert membership_of(written) is None
    known = written.replace(b"\xff\xff\xff\xffbilling\0", FIVE + b"billing\0m-1", 1)
    assert membership_of(known) == GroupMembership("billing", 5, "m-1", static.get("group.instance.id"))

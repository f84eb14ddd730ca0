"""Descriptions of groups with members: complete, or refused if the user may not see a topic of the group."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree
from tests.integration.jars import missing_programs
from tests.integration.processes import START, eventually
from tests.router.authorizer.bed import Sides
from tests.router.authorizer.rules import MINE, MISSING, PUBLIC, USERS

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("authorizer"),
]
HIDDEN = {"owner", "denied"}
"""Users that may describe the group, but not its topic PUBLIC."""
REFUSED = {"nobody", "operator"}


def group_of(answer: Tree | None) -> Tree:
    assert answer is not None
    (group,) = answer["groups"]
    return dict(group)


def test_a_group_of_the_consumer_protocol(sides: Sides) -> None:
    properties = {"group.protocol": "consumer", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": sides.broker.bootstrap_servers, **properties, "group.id": MINE})
    consumer.subscribe([MINE, PUBLIC, MISSING])  # the last one does not exist
    try:

        def has_all() -> bool:
            consumer.poll(0.2)
            return len(consumer.assignment()) == 2

        eventually("an assignment", has_all, timeout=START)
        for version in sides.versions[ApiKey.CONSUMER_GROUP_DESCRIBE]:
            for user in USERS:
                asked = {"group_ids": [MINE], "include_authorized_operations": True}
                broker, mesh = (
                    group_of(sides.clients[where, user].ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, asked))
                    for where in ("broker", "mesh")
                )
                assert mesh | {"error_message": None} == broker | {"error_message": None}, user
                assert bool(mesh["members"]) is (user not in HIDDEN | REFUSED), user
                assert (mesh["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED) is (user in HIDDEN), user
    finally:
        consumer.close()


def test_topics_of_transactions(sides: Sides) -> None:
    """Each of the two open transactions has two topics."""
    seen = {}
    for user in USERS:
        asked = {"transactional_ids": [MINE]}
        broker, mesh = (
            sides.clients[where, user].ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, asked) for where in ("broker", "mesh")
        )
        assert mesh == broker, user
        assert mesh is not None
        seen[user] = {each["topic"] for state in mesh["transaction_states"] for each in state["topics"]}
    assert seen["describer"] > seen["owner"] == {MINE} and seen["nobody"] == set()

"""The topics that librdkafka finds when it asks for all: in lists, and in subscriptions by regular expression."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from tests.integration.bench import Bench
from tests.integration.kafka import CLIENT_PROPERTIES


def test_a_list_of_topics(bench: Bench) -> None:
    mesh = bench.start_mesh()
    admin = AdminClient({**CLIENT_PROPERTIES, "bootstrap.servers": mesh.bootstrap_servers})
    listed = admin.list_topics(timeout=30).topics
    assert {name: sorted(topic.partitions) for name, topic in listed.items()} == {bench.topic: [0, 1, 2, 3, 4, 5]}


def test_a_classic_subscription_by_regular_expression(bench: Bench) -> None:
    """librdkafka's classic consumer finds the topic itself, and shares its records with a member that names it."""
    bench.start_mesh()
    pattern = bench.confluent("pattern", topic=f"^{bench.topic[:-1]}.$", commit="sync")
    named = bench.confluent("named", commit="sync")
    with bench.feeding_throughout(rate=500):
        for member in (pattern, named):
            member.until_delivered(100)
    bench.account_when_all_arrived().assert_each_once()
    bench.until_all_committed()
    bench.close_members()

"""Feed, reader and members against plain Kafka: the tools of the acceptance tests must themselves be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.consumer import ConsumerOptions
from tests.integration.feeding import Feed, upstream_records
from tests.integration.kafka import KafkaCluster
from tests.integration.members import ConfluentMember, JavaMember, KcatMember, Member
from tests.integration.processes import eventually
from tests.integration.records import Delivery, Record, Stored, View, account, jain_index, varied_record

KINDS = ("confluent", "java", "kcat")


def member(kind: str, kafka: KafkaCluster, group: str, topic: str, folder: Path) -> Member:
    address = kafka.bootstrap_servers
    match kind:
        case "confluent":
            return ConfluentMember(kind, ConsumerOptions(address, group, topic, commit="sync"), folder)
        case "java":
            return JavaMember(kind, kafka, address, group, topic, folder)
        case _:
            return KcatMember.subscribed(kind, address, group, topic, folder)


@pytest.mark.parametrize("kind", KINDS)
def test_member_shows_what_is_stored(kind: str, kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = f"bed-{kind}"
    kafka.create_topic(topic, 3)
    Feed(kafka, topic, has_gaps=False).produce(1_100)
    stored = upstream_records(kafka, topic)
    assert len(stored) == 1_100
    consumer = member(kind, kafka, f"group-{kind}", topic, tmp_path)
    eventually("all records shown", lambda: len(consumer.deliveries) >= 1_100)
    account(stored, consumer.deliveries).assert_each_once()
    assert consumer.events["assigned"] == 1
    assert not consumer.events["revoked"]
    consumer.close()
    assert sum(kafka.committed(f"group-{kind}").values()) == 1_100


def test_feed_stores_what_it_says(kafka: KafkaCluster) -> None:
    kafka.create_topic("bed-feed", 1)
    Feed(kafka, "bed-feed").produce(300)
    stored = upstream_records(kafka, "bed-feed")
    fed = [varied_record(f"eu-bed-feed-{number}", number) for number in range(300)]
    assert {identity: each.record for identity, each in stored.items()} == {record.id: record for record in fed}
    assert {record.key for record in fed} >= {None, b"", b"a text"}
    assert any(record.value is None for record in fed)


def test_account_names_what_went_wrong() -> None:
    records = [Record(None, f"{identity}|value".encode(), (), 0) for identity in ("a", "b", "c", "d")]
    stored = {record.id: Stored(record, "eu", "topic", 0, offset) for offset, record in enumerate(records)}
    intact = [
        Delivery(record.id, View.WHOLE, record.fingerprint(View.WHOLE), "first", 0, offset)
        for offset, record in enumerate(records)
    ]
    account(stored, intact).assert_each_once()
    strange = Delivery("e", View.WHOLE, "", "first", 0, 9)
    altered = Delivery("d", View.WHOLE, "", "first", 0, 3)
    found = account(stored, [intact[1], intact[1], intact[2], altered, strange])
    assert (found.lost, list(found.twice), found.altered, found.unknown) == (["a"], ["b"], [altered], [strange])
    with pytest.raises(AssertionError, match=r"lost: 1 \['a'\]"):
        found.assert_nothing_lost_or_altered()


def test_jain_index() -> None:
    assert jain_index([5, 5, 5, 5]) == 1.0
    assert jain_index([7, 0, 0, 0]) == 0.25
    assert jain_index([0, 0]) == 0.0

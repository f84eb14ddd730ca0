"""Ids of topics: reported when one becomes known, changes, or must be reported again."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from mesh.records.spans import TopicName
from mesh.upstream.engine import TopicsIdentified
from mesh.upstream.librdkafka.positions.topic_ids import INTERVAL, TopicIds

ORDERS, OTHER = TopicName("orders"), TopicName("other")
OLD, NEW, NONE = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAA"


class Bed:
    """An admin client that answers when a test says so."""

    def __init__(self) -> None:
        self.told: list[tuple[Mapping[TopicName, str], int]] = []
        self.asked: list[dict[str, Future[Any]]] = []
        self.ids = TopicIds(lambda: cast(AdminClient, self), self._put)
        self.now = 0.0

    def _put(self, event: TopicsIdentified) -> None:
        self.told.append((event.ids, event.resets))

    def describe_topics(self, topics: TopicCollection, **_settings: object) -> dict[str, Future[Any]]:
        self.asked.append({name: Future() for name in topics.topic_names})
        return self.asked[-1]

    def look(self, later: float = INTERVAL) -> list[TopicName]:
        self.now += later
        return self.ids.find_recreated([ORDERS, OTHER], self.now)

    def answer(self, **ids: str | None) -> list[TopicName]:
        """Answers the last request; None: no broker knows. Returns the partitions whose topic has changed."""
        for name, topic_id in ids.items():
            if topic_id is None:
                self.asked[-1][name].set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
            else:
                self.asked[-1][name].set_result(SimpleNamespace(topic_id=topic_id))
        return self.look(later=0)


def test_told_when_one_is_known_and_when_it_is_another_one() -> None:
    bed = Bed()
    bed.look()
    assert bed.answer(orders=OLD, other=NONE) == []
    assert bed.told == [({ORDERS: OLD, OTHER: ""}, 0)]
    bed.look()
    assert bed.answer(orders=OLD, other=NONE) == []
    bed.look()
    assert bed.answer(orders=NEW, other=OLD) == [ORDERS]
    assert bed.told[1:] == [({ORDERS: NEW, OTHER: OLD}, 0)]


def test_ids_are_told_as_kafka_writes_them() -> None:
    bed = Bed()
    bed.look()
    bed.answer(orders="Z9ifDO+ZQ0yXvTFwy7L/nw", other=NONE)
    assert bed.told == [({ORDERS: "Z9ifDO-ZQ0yXvTFwy7L_nw", OTHER: ""}, 0)]


def test_nobody_who_says_it_is_told_as_none_until_somebody_does_and_changes_nothing_afterwards() -> None:
    bed = Bed()
    for answered in (None, OLD, None):
        bed.look()
        assert bed.answer(orders=answered, other=NONE) == []
    assert bed.told == [({ORDERS: "", OTHER: ""}, 0), ({ORDERS: OLD}, 0)]


def test_what_was_asked_before_a_reset_is_not_told_and_it_is_asked_at_once() -> None:
    bed = Bed()
    bed.look()
    bed.ids.forget(resets=1)
    bed.answer(orders=OLD, other=OLD)
    assert bed.told == []
    assert len(bed.asked) == 2
    assert bed.answer(orders=NEW, other=OLD) == []
    assert bed.told == [({ORDERS: NEW, OTHER: OLD}, 1)]
    bed.ids.forget()
    bed.look()
    bed.answer(orders=None, other=OLD)
    assert bed.told[1:] == [({ORDERS: "", OTHER: OLD}, 1)]

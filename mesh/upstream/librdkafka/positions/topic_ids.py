"""Notices topics that were deleted and created again under their old names.

librdkafka silently continues at the old position of a new log, if that is long enough; the records before it would be
lost. Only the topic's id shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from mesh.records.spans import TopicName
from mesh.upstream.engine import TopicsIdentified

INTERVAL = 5.0
REQUEST_TIMEOUT = 5.0
_NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""Sixteen zero bytes: the answer of a cluster without topic ids."""
_AS_KAFKA = str.maketrans("+/", "-_")
"""Translates librdkafka's base64 to that of Kafka's tools."""


class TopicIds:
    """The ids of topics, requested every `INTERVAL` seconds without blocking. put: called with new ids."""

    def __init__(self, admin: Callable[[], AdminClient], put: Callable[[TopicsIdentified], None]) -> None:
        self._admin = admin
        self._put = put
        self._ids: dict[TopicName, str] = {}
        self._reported: dict[TopicName, str] = {}
        self._answers: dict[TopicName, Future[Any]] = {}
        self._ask_at = 0.0
        self._resets = 0

    def find_recreated(self, topics: Collection[TopicName], now: float) -> list[TopicName]:
        """Returns the topics whose id has changed."""
        changed: list[TopicName] = []
        changed_ids: dict[TopicName, str] = {}
        for name in [name for name, answer in self._answers.items() if answer.done()]:
            topic_id = _id_of(self._answers.pop(name))
            if topic_id:
                if self._ids.get(name, topic_id) != topic_id:
                    changed.append(name)
                self._ids[name] = topic_id
            if self._reported.get(name) != (reported := topic_id or self._reported.get(name, "")):
                changed_ids[name] = reported
        if changed_ids:
            self._reported |= changed_ids
            self._put(TopicsIdentified(changed_ids, self._resets))
        if topics and not self._answers and now >= self._ask_at:
            self._ask_at = now + INTERVAL
            answers = self._admin().describe_topics(TopicCollection(sorted(topics)), request_timeout=REQUEST_TIMEOUT)
            self._answers = {TopicName(name): answer for name, answer in answers.items()}
        return changed

    def forget(self, resets: int | None = None) -> None:
        """Requests the ids at once, and reports them again though they are the same. resets: as in `LogEnds.forget`."""
        self._reported, self._answers, self._ask_at = {}, {}, 0.0
        self._resets = self._resets if resets is None else resets


def _id_of(answer: Future[Any]) -> str:
    try:
        topic_id = str(answer.result().topic_id).translate(_AS_KAFKA)
    except KafkaException:
        return ""  # it does not exist now, or no broker answers
    return "" if topic_id == _NONE else topic_id

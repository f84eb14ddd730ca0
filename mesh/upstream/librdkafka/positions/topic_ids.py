"""Topics that were deleted and made anew under their old names.

librdkafka reads on at the old position of a new log, if that is long enough, and says nothing: what lies in front of it
would be lost. Only the topic's id tells.
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
"""A cluster without topic ids answers sixteen zero bytes."""
_AS_KAFKA = str.maketrans("+/", "-_")
"""From librdkafka's base64 to that of Kafka's tools."""


class TopicIds:
    """Asks every `INTERVAL` seconds, and waits for nothing. put: takes what is found out."""

    def __init__(self, admin: Callable[[], AdminClient], put: Callable[[TopicsIdentified], None]) -> None:
        self._admin = admin
        self._put = put
        self._ids: dict[TopicName, str] = {}
        self._told: dict[TopicName, str] = {}
        self._answers: dict[TopicName, Future[Any]] = {}
        self._ask_at = 0.0
        self._resets = 0

    def made_anew(self, topics: Collection[TopicName], now: float) -> list[TopicName]:
        """Which of them have another id than before."""
        changed: list[TopicName] = []
        news: dict[TopicName, str] = {}
        for name in [name for name, answer in self._answers.items() if answer.done()]:
            topic_id = _id_of(self._answers.pop(name))
            if topic_id:
                if self._ids.get(name, topic_id) != topic_id:
                    changed.append(name)
                self._ids[name] = topic_id
            if self._told.get(name) != (said := topic_id or self._told.get(name, "")):
                news[name] = said
        if news:
            self._told |= news
            self._put(TopicsIdentified(news, self._resets))
        if topics and not self._answers and now >= self._ask_at:
            self._ask_at = now + INTERVAL
            answers = self._admin().describe_topics(TopicCollection(sorted(topics)), request_timeout=REQUEST_TIMEOUT)
            self._answers = {TopicName(name): answer for name, answer in answers.items()}
        return changed

    def forget(self, resets: int | None = None) -> None:
        """Ask at once, and tell them again though they are the same. resets: as of `LogEnds.forget`."""
        self._told, self._answers, self._ask_at = {}, {}, 0.0
        self._resets = self._resets if resets is None else resets


def _id_of(answer: Future[Any]) -> str:
    try:
        topic_id = str(answer.result().topic_id).translate(_AS_KAFKA)
    except KafkaException:
        return ""  # not there at the moment, or nobody answers
    return "" if topic_id == _NONE else topic_id

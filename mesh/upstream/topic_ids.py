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

INTERVAL = 5.0
REQUEST_TIMEOUT = 5.0
_NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""A cluster without topic ids answers sixteen zero bytes."""


class TopicIds:
    """Asks every `INTERVAL` seconds, and waits for nothing."""

    def __init__(self, admin: Callable[[], AdminClient]) -> None:
        self._admin = admin
        self._ids: dict[TopicName, str] = {}
        self._answers: dict[TopicName, Future[Any]] = {}
        self._ask_at = 0.0

    def made_anew(self, topics: Collection[TopicName], now: float) -> list[TopicName]:
        """Which of them have another id than before."""
        changed: list[TopicName] = []
        for name in [name for name, answer in self._answers.items() if answer.done()]:
            topic_id = _id_of(self._answers.pop(name))
            if topic_id is not None:
                if self._ids.get(name, topic_id) != topic_id:
                    changed.append(name)
                self._ids[name] = topic_id
        if topics and not self._answers and now >= self._ask_at:
            self._ask_at = now + INTERVAL
            answers = self._admin().describe_topics(TopicCollection(sorted(topics)), request_timeout=REQUEST_TIMEOUT)
            self._answers = {TopicName(name): answer for name, answer in answers.items()}
        return changed


def _id_of(answer: Future[Any]) -> str | None:
    try:
        topic_id = str(answer.result().topic_id)
    except KafkaException:
        return None  # not there at the moment, or nobody answers
    return None if topic_id == _NONE else topic_id

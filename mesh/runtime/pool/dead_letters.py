"""Writes records that a pool gives up as letters to the dead-letter topic of their cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from mesh.pool.common.effects import DeadLetterUpstream
from mesh.records.spans import ClusterName, TopicName
from mesh.upstream.writers.dead_letters import DeadLetter, DeadLetterWriter

Ended: TypeAlias = Callable[[str], None]
WriteDeadLetter: TypeAlias = Callable[[DeadLetterUpstream, Ended], None]


class DeadLetterForwarder:
    """Gives dead letters to the writer of their cluster. topic: the name of the dead-letter topic, in which {topic}
    stands for the record's topic. writer: returns the writer of a cluster."""

    def __init__(self, topic: str, writer: Callable[[ClusterName], DeadLetterWriter]) -> None:
        self._topic = topic
        self._writer = writer

    def write_dead_letter(self, effect: DeadLetterUpstream, ended: Ended) -> None:
        """Writes a dead letter. `ended` is called on the event loop: with "" if it was written, otherwise with the
        reason."""
        source, history = effect.partition, effect.history
        about = {
            "cluster": source.cluster,
            "topic": source.topic,
            "partition": str(source.partition),
            "offset": str(effect.batch.first),
            "group": effect.group,
            "deliveries": str(history.count),
            "member": history.member,
            "reason": history.cause.value if history.cause is not None else "",
            "time": str(time.time_ns() // 1_000_000),
        }
        topic = TopicName(self._topic.format(topic=source.topic))
        self._writer(source.cluster).write(DeadLetter(topic, effect.batch, about, ended))


def no_dead_letters(effect: DeadLetterUpstream, _: Ended) -> None:
    """A stand-in for a writer in pools without dead letters, which deliver such records again for ever."""
    raise AssertionError(f"{effect.partition} has a dead letter, and nowhere to put it")

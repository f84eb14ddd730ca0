"""From a record that a pool gives up to a letter in the dead-letter topic of its cluster."""

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
    """Gives dead letters to the writers of their clusters. topic: in which {topic} stands for that of the record.
    writer: of a cluster."""

    def __init__(self, topic: str, writer: Callable[[ClusterName], DeadLetterWriter]) -> None:
        self._topic = topic
        self._writer = writer

    def write_dead_letter(self, effect: DeadLetterUpstream, ended: Ended) -> None:
        """`ended` is called on the event loop with why it could not be written, "" if it was."""
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
    """For pools without dead letters, whose records come again for ever."""
    raise AssertionError(f"{effect.partition} has a dead letter, and nowhere to put it")

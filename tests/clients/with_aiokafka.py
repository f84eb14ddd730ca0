"""aiokafka, driven by the common loop: its own tasks run while the loop polls, commits or sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from tests.clients.consuming import Consumer, Seen, report, run
from tests.clients.script import Script

Result = TypeVar("Result")


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        report("assigned", (each.partition for each in assigned))

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if revoked:
            report("revoked", (each.partition for each in revoked))


class AiokafkaConsumer(Consumer):
    def __init__(self, script: Script) -> None:
        self._loop = asyncio.new_event_loop()
        self._script = script
        self._consumer = self._wait(self._started(script))

    async def _started(self, script: Script) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=script.bootstrap_servers,
            client_id=script.client_id,
            group_id=script.group,
            group_instance_id=script.instance_id,
            auto_offset_reset=script.reset,
            enable_auto_commit=script.group is not None and script.commit == "auto",
            auto_commit_interval_ms=script.commit_interval,
            session_timeout_ms=script.session_timeout,
            max_poll_interval_ms=script.max_poll_interval,
        )
        if not script.partitions:
            consumer.subscribe(script.topic.split(","), listener=_Listener())
        await consumer.start()
        if script.partitions:
            consumer.assign([TopicPartition(script.topic, partition) for partition in range(script.partitions)])
        return consumer

    def poll(self) -> Sequence[Seen]:
        records = self._wait(self._consumer.getmany(timeout_ms=200, max_records=self._script.records_per_poll))
        return [
            Seen(each.partition, each.offset, each.timestamp, each.timestamp_type, each.key, each.value, each.headers)
            for several in records.values()
            for each in several
        ]

    def commit(self) -> bool:
        try:
            self._wait(self._consumer.commit())
        except KafkaError as failure:  # also while the mesh is away
            report("commit failed", text=str(failure))
            return False
        return True

    def commit_positions(self, positions: Mapping[int, int]) -> bool:
        offsets = {TopicPartition(self._script.topic, each): offset for each, offset in positions.items()}
        try:
            self._wait(self._consumer.commit(offsets))
        except KafkaError as failure:
            report("commit failed", text=str(failure))
            return False
        return True

    def pause(self) -> None:
        async def paused() -> None:  # it makes futures
            self._consumer.pause(*self._consumer.assignment())

        self._wait(paused())

    def resume(self) -> None:
        async def resumed() -> None:
            self._consumer.resume(*self._consumer.assignment())

        self._wait(resumed())

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(self._script.topic, partition), offset)

    def close(self) -> None:
        self._wait(self._consumer.stop())
        self._loop.close()

    def sleep(self, seconds: float) -> None:
        if seconds:
            self._wait(asyncio.sleep(seconds))

    def _wait(self, doing: Coroutine[Any, Any, Result]) -> Result:
        return self._loop.run_until_complete(doing)


if __name__ == "__main__":
    run(AiokafkaConsumer)

"""confluent-kafka, driven by the common loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, KafkaException, TopicPartition
from confluent_kafka import Consumer as Librdkafka

from tests.clients.consuming import Consumer, Seen, report, run
from tests.clients.script import Script


class ConfluentConsumer(Consumer):
    def __init__(self, script: Script) -> None:
        self._script = script
        properties: dict[str, object] = {
            "bootstrap.servers": script.bootstrap_servers,
            "client.id": script.client_id,
            "group.id": script.group or "not-used",
            "auto.offset.reset": {"none": "error"}.get(script.reset, script.reset),
            "enable.auto.commit": script.group is not None and script.commit == "auto",
            "auto.commit.interval.ms": script.commit_interval,
            "group.protocol": script.protocol,
            "max.poll.interval.ms": script.max_poll_interval,
            "error_cb": lambda error: report("error", text=str(error)),
        }
        if script.assignor:
            properties["partition.assignment.strategy"] = script.assignor
        if script.protocol == "classic":
            properties["session.timeout.ms"] = script.session_timeout
        if script.instance_id is not None:
            properties["group.instance.id"] = script.instance_id
        self._consumer = Librdkafka(properties)
        if not script.partitions:
            self._consumer.subscribe(
                [script.pattern] if script.pattern else script.topic.split(","),
                on_assign=self._report("assigned"),
                on_revoke=self._report("revoked"),
                on_lost=self._report("lost"),
            )
            return
        start = OFFSET_END if script.reset == "latest" else OFFSET_BEGINNING
        start = OFFSET_STORED if script.group is not None else start
        self._consumer.assign([TopicPartition(script.topic, each, start) for each in range(script.partitions)])

    def poll(self) -> Sequence[Seen]:
        seen: list[Seen] = []
        for message in self._consumer.consume(self._script.records_per_poll, timeout=0.2):
            if (error := message.error()) is not None:
                report("error", text=str(error))
                continue
            timestamp_type, timestamp = message.timestamp()
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            key, value = message.key(), message.value()
            assert not isinstance(key, str) and not isinstance(value, str)
            headers: Sequence[tuple[str, bytes | None]] = message.headers() or ()  # type: ignore[assignment]
            # librdkafka counts from 1.
            seen.append(Seen(partition, offset, timestamp, timestamp_type - 1, key, value, headers))
        return seen

    def commit(self) -> bool:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as failure:
            report("commit failed", text=str(failure))
            return False
        return True

    def commit_positions(self, positions: Mapping[int, int]) -> bool:
        offsets = [TopicPartition(self._script.topic, each, offset) for each, offset in positions.items()]
        try:
            answer = self._consumer.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException as failure:
            report("commit failed", text=str(failure))
            return False
        failed = [f"{each.partition}: {each.error}" for each in answer if each.error]
        if failed:
            report("commit failed", text=", ".join(failed))
        return not failed

    def commit_without_waiting(self) -> None:
        self._consumer.commit(asynchronous=True)

    def pause(self) -> None:
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        self._consumer.resume(self._consumer.assignment())

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(self._script.topic, partition, offset))

    def close(self) -> None:
        self._consumer.close()

    def _report(self, what: str) -> Callable[[Librdkafka, list[TopicPartition]], None]:
        return lambda _, partitions: report(what, (each.partition for each in partitions))


if __name__ == "__main__":
    run(ConfluentConsumer)

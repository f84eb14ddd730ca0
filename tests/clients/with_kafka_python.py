"""kafka-python, driven by the common loop."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.structs import OffsetAndMetadata

from tests.clients.consuming import Consumer, Seen, report, run
from tests.clients.script import Script

_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        report("assigned", (each.partition for each in assigned))

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if revoked:
            report("revoked", (each.partition for each in revoked))


class KafkaPythonConsumer(Consumer):
    def __init__(self, script: Script) -> None:
        self._topic = script.topic
        assignors = {"partition_assignment_strategy": [_ASSIGNORS[script.assignor]]} if script.assignor else {}
        self._consumer = KafkaConsumer(
            bootstrap_servers=script.bootstrap_servers,
            client_id=script.client_id,
            group_id=script.group,
            group_instance_id=script.instance_id,
            auto_offset_reset=script.reset,
            enable_auto_commit=script.group is not None and script.commit == "auto",
            auto_commit_interval_ms=script.commit_interval,
            session_timeout_ms=script.session_timeout,
            max_poll_interval_ms=script.max_poll_interval,
            max_poll_records=script.records_per_poll,
            **assignors,
        )
        if not script.partitions:
            topics = script.topic.split(",")
            self._consumer.subscribe(topics, listener=_Listener())
            # A leader of its group on a cluster that does not know the topic yet assigns nothing, perhaps for five
            # minutes. If it learns of the topic during a join, it joins again, but forgets that if `poll` returns too
            # early: then it never gets anything. Both happen on Kafka itself.
            while script.assignor and not self._consumer.topics().issuperset(topics):
                time.sleep(0.1)
        else:
            self._consumer.assign([TopicPartition(script.topic, partition) for partition in range(script.partitions)])

    def poll(self) -> Sequence[Seen]:
        try:
            records = self._consumer.poll(timeout_ms=200)
        except KafkaConnectionError as failure:
            report("connection failed", text=str(failure))
            return []
        return [
            Seen(each.partition, each.offset, each.timestamp, each.timestamp_type, each.key, each.value, each.headers)
            for several in records.values()
            for each in several
        ]

    def commit(self) -> bool:
        try:
            self._consumer.commit()
        except KafkaError as failure:  # also while the mesh is away
            report("commit failed", text=str(failure))
            return False
        return True

    def commit_positions(self, positions: Mapping[int, int]) -> bool:
        offsets = {TopicPartition(self._topic, each): OffsetAndMetadata(at, "", -1) for each, at in positions.items()}
        try:
            self._consumer.commit(offsets)
        except KafkaError as failure:
            report("commit failed", text=str(failure))
            return False
        return True

    def commit_without_waiting(self) -> None:
        self._consumer.commit_async()

    def pause(self) -> None:
        self._consumer.pause(*self._consumer.assignment())

    def resume(self) -> None:
        self._consumer.resume(*self._consumer.assignment())

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(self._topic, partition), offset)

    def close(self) -> None:
        self._consumer.close()


if __name__ == "__main__":
    run(KafkaPythonConsumer)

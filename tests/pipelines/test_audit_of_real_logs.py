"""Audits of offsets without records, on a real broker and a real mesh: an audit does not report compaction,
transactions and retention as losses, and finds losses beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from mesh.pipelines.audit.audit import next_audit
from mesh.pipelines.audit.job import AuditJob
from mesh.pipelines.audit.kafka import compacted
from mesh.pipelines.audit.records import AuditVerdict
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually
from tests.pipelines.audit.test_landed import append
from tests.pipelines.real_logs import COMPACTED_AT_ONCE, Log, eager_cleaner

pytestmark = [pytest.mark.long, pytest.mark.kafka]
KEYS = [f"key-{number}" for number in range(10)]
GROUP = "audited"


class Member:
    """A plain consumer of all logs, which lands its records and commits them."""

    def __init__(self, mesh: Mesh, logs: Sequence[Log], table: Path) -> None:
        self._mesh = mesh
        self._logs = logs
        self._table = table
        self._batch = 0
        self._landed: set[tuple[str, str]] = set()

    def take(self, *missed: tuple[Log, int]) -> None:
        """Lands the available records that were not landed yet; `missed` are those that it will not get."""
        there = {(log.topic, log.written[offset]): (log, offset) for log in self._logs for offset in log.read()}
        done = {(log.topic, log.written[offset]) for log, offset in missed} | self._landed
        wanted = {key: place for key, place in there.items() if key not in done}
        consumer = Consumer(
            {
                **CLIENT_PROPERTIES,
                "bootstrap.servers": self._mesh.bootstrap_servers,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.subscribe([log.topic for log in self._logs])
            found: dict[tuple[str, str], tuple[Log, int]] = {}
            while len(found) < len(wanted):
                message = consumer.poll(60)
                assert message is not None, f"did not come: {sorted(wanted.keys() - found.keys())}"
                key = str(message.topic()), (message.value() or b"").decode()
                found[key] = wanted[key]  # and nothing else
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        for log in self._logs:
            offsets = sorted(offset for each, offset in found.values() if each is log)
            append(self._table, self._batch, log.topic, offsets, partitions=1, cluster=log.cluster.name)
            self._batch += 1
        self._landed |= found.keys()


@pytest.fixture
def cleaned(kafka: KafkaCluster) -> Iterator[KafkaCluster]:
    with eager_cleaner(kafka):
        yield kafka


def audit_of(cluster: KafkaCluster, logs: Sequence[Log], folder: Path) -> AuditJob:
    return AuditJob.model_validate(
        {
            "virtual_cluster": "tested",
            "group": GROUP,
            "topics": {cluster.name: [log.topic for log in logs]},
            "clusters": {cluster.name: {"bootstrap.servers": cluster.bootstrap_servers}},
            "journal": {"cluster": cluster.name, "topic": "real-logs-journal"},
            "landed": {"table": str(folder / "table"), "by": "everybody"},
            "state": str(folder / "audit"),
            "patience": 0,  # the mesh has ended by then, and its journal with it
        }
    )


def found_by(verdict: AuditVerdict) -> set[tuple[str, str, int, int]]:
    return {(each.kind, topic, each.first, each.last) for (_, topic, _), each in verdict.deviations}


@pytest.mark.timeout(300)
def test_offsets_without_records_are_no_losses_and_losses_beside_them_are(
    cleaned: KafkaCluster, spark: Any, tmp_path: Path
) -> None:
    by_key = Log(cleaned, "real-compacted", COMPACTED_AT_ONCE)
    transacted, trimmed = Log(cleaned, "real-transacted"), Log(cleaned, "real-trimmed")
    logs = [by_key, transacted, trimmed]
    config = audit_of(cleaned, logs, tmp_path)

    # Before anything is read: replaced values, aborted records, a deleted beginning.
    by_key.compact(gone=by_key.write(*KEYS, *KEYS)[: len(KEYS)])
    for commits in (True, False, True, True):
        transacted.transaction(5, commits)
    trimmed.write(*KEYS, *KEYS, *KEYS)
    trimmed.delete_below(10)
    journal = {"cluster": cleaned.name, "topic": "real-logs-journal", "create": True, "interval": "200ms"}
    mesh = Mesh([cleaned], [log.topic for log in logs], tmp_path, {}, process={"process_id": "m", "journal": journal})
    try:
        member = Member(mesh, logs, tmp_path / "table")
        member.take()

        # After everything was acknowledged and landed, and before an audit: the same again.
        old = by_key.read()[:5]
        by_key.write(*KEYS[:5])
        by_key.compact(gone=old)
        trimmed.delete_below(20)
        member.take()
        transacted.delete_below(transacted.read()[-1])  # with markers and aborted records
        mesh.stop()

        # And records that no member got yet.
        lost = [by_key.write("lost")[0], transacted.transaction(5)[0], 33]
        superseded = by_key.write(*KEYS[5:])
        transacted.transaction(5, commits=False)
        trimmed.write(*KEYS)
        there = {log.topic: log.read() for log in logs}
        verdict = next_audit(spark, config)
        print(*verdict.lines(), sep="\n")
        assert found_by(verdict) == set()
        assert verdict.holds
        totals = verdict.totals
        assert totals["expected"] == sum(map(len, there.values()))
        assert verdict.waiting == 1 + 5 + 5 + 10
        assert totals["acknowledged"] == totals["landed"] == totals["expected"] - verdict.waiting
        assert totals["missing"] == 0

        # Waiting records are compacted and deleted, too; and one record of each log is skipped.
        by_key.write(*KEYS[5:])
        by_key.compact(gone=superseded)
        for log, offset in ((transacted, lost[1]), (trimmed, lost[2])):
            log.delete_below(offset)
        pass_over(cleaned, dict(zip(logs, lost, strict=True)))
        mesh.restart()
        member.take(*zip(logs, lost, strict=True))
        mesh.stop()
        verdict = next_audit(spark, config)
        print(*verdict.lines(), sep="\n")
        assert found_by(verdict) == {
            *(("missing", log.topic, offset, offset) for log, offset in zip(logs, lost, strict=True)),
            ("deleted", trimmed.topic, 30, 32),
            ("compacted", by_key.topic, superseded[0], superseded[-1]),
        }
        assert verdict.totals["missing"] == len(lost)
        assert verdict.waiting == 0
    finally:
        mesh.kill()


def test_only_what_is_compacted_is_said_to_be(kafka: KafkaCluster) -> None:
    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    policies = {"policy-compact": "compact", "policy-both": "compact,delete", "policy-delete": "delete"}
    for topic, policy in policies.items():
        kafka.create_topic(topic, 1, {"cleanup.policy": policy})
    assert compacted(properties, [*policies, "is-not-there"]) == {"policy-compact", "policy-both", "is-not-there"}


def pass_over(cluster: KafkaCluster, lost: dict[Log, int]) -> None:
    """Commits for the group, beyond records that no member has read."""
    consumer = Consumer({**CLIENT_PROPERTIES, "bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP})
    try:
        eventually("the mesh has left the group", lambda: cluster.group_members(GROUP) == 0)
        done = consumer.commit(
            offsets=[TopicPartition(log.topic, 0, offset + 1) for log, offset in lost.items()], asynchronous=False
        )
        assert all(each.error is None for each in done or ())
    finally:
        consumer.close()

"""An audit and a report of a real mesh with a journal, on two real clusters, about records that a member and Spark
got."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition

from mesh.pipelines.audit.audit import next_audit
from mesh.pipelines.audit.intervals import length, union
from mesh.pipelines.audit.job import AuditJob, load
from mesh.pipelines.audit.kafka import Stretch, logs, read_pages
from mesh.pipelines.report.report import report
from tests.integration.bench import Bench
from tests.integration.conftest import bench as bench
from tests.integration.feeding import log_ends
from tests.integration.kafka import CLIENT_PROPERTIES
from tests.integration.processes import eventually
from tests.spark.session import land
from tests.spark.test_source import options_of, run_once

pytestmark = pytest.mark.long


def start_with_journal(bench: Bench) -> None:
    journal = {
        "cluster": bench.clusters[0].name,
        "topic": f"{bench.topic}-journal",
        "create": True,
        "interval": "200ms",
    }
    bench.start_mesh(process={"process_id": "mesh-1", "journal": journal})


def audit_of(bench: Bench, folder: Path, **more: object) -> AuditJob:
    file = folder / "audit.yaml"
    names = [cluster.name for cluster in bench.clusters]
    file.write_text(
        yaml.safe_dump(
            {
                "virtual_cluster": "tested",
                "group": bench.group,
                "topics": {name: [bench.topic] for name in names},
                "clusters": {each.name: {"bootstrap.servers": each.bootstrap_servers} for each in bench.clusters},
                "journal": {"cluster": names[0], "topic": f"{bench.topic}-journal"},
                "state": str(folder / "audit"),
                "patience": 3,
                "report": {"last": "1h"},
                **more,
            }
        )
    )
    return load(file)


@contextmanager
def waiting_member(bench: Bench) -> Iterator[None]:
    """A member that has joined and asks for no records."""
    properties = {**CLIENT_PROPERTIES, "bootstrap.servers": bench.mesh.bootstrap_servers, "group.id": bench.group}
    member = Consumer(properties)
    assigned: list[TopicPartition] = []

    def pause(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign(partitions)
        consumer.pause(partitions)
        assigned.extend(partitions)

    member.subscribe([bench.topic], on_assign=pause)
    try:
        eventually("the member that waits has joined", lambda: member.poll(0.1) is None and bool(assigned))
        yield
    finally:
        member.close()


def without_records(bench: Bench) -> int:
    """The number of offsets without a record, according to the journal."""
    topic = f"{bench.topic}-journal"
    properties = {"bootstrap.servers": bench.clusters[0].bootstrap_servers}
    pages = [
        page
        for (_, partition), log in logs(properties, [topic]).items()
        for page in read_pages(properties, Stretch("", topic, partition, log.start, log.end))
    ]
    events = [each for page in pages for each in page if each.event == "empty"]
    places = {(each.cluster, each.partition) for each in events}
    return sum(
        length(union((each.first, each.last) for each in events if (each.cluster, each.partition) == place))
        for place in places
    )


def gaps_of(bench: Bench, records: int) -> int:
    """The number of upstream offsets without a record, if so many have one."""
    return sum(sum(log_ends(cluster, bench.topic).values()) for cluster in bench.clusters) - records


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_what_a_member_and_spark_were_given(bench: Bench, spark: Any, tmp_path: Path) -> None:
    start_with_journal(bench)
    member = bench.confluent("member", commit="sync")
    member.until_assigned()
    bench.feed(2_000)
    bench.until_all_committed()
    config = audit_of(bench, tmp_path, landed={"table": str(tmp_path / "table")})
    verdict = next_audit(spark, config)
    print(*verdict.lines(), sep="\n")
    assert verdict.holds
    assert not verdict.holes.any
    totals = verdict.totals
    assert totals["expected"] == totals["delivered"] == totals["acknowledged"] == 2_000
    assert (totals["landed"], verdict.waiting) == (0, 0)

    with waiting_member(bench):  # so that the mesh reads, and finds offsets without a record
        bench.close_members()
        bench.feed(1_000)
        eventually("the journal says what has no record", lambda: without_records(bench) == gaps_of(bench, 3_000))
    run_once(land(spark, options_of(bench), tmp_path))
    run_once(land(spark, options_of(bench), tmp_path))  # acknowledges what the last run has landed
    bench.until_all_committed()
    verdict = next_audit(spark, config)
    print(*verdict.lines(), sep="\n")
    assert verdict.holds
    totals = verdict.totals
    assert totals["expected"] == totals["acknowledged"] == totals["landed"] == 1_000
    assert (totals["twice"], verdict.waiting, verdict.memory.number) == (0, 0, 2)

    made = report(spark, config)
    print(*made.lines(), sep="\n")
    counts = made.figures.total.counts
    assert counts["acknowledged"] == 3_000
    by_kind = Counter[bool]()
    for each in made.figures.members:
        by_kind[each.member_info.is_lease] += each.tally.counts["acknowledged"]
    assert by_kind == {False: 2_000, True: 1_000}
    assert counts["delivered"] + counts["redelivered"] == 3_000 + counts["released"] + counts["revoked"]
    assert len(made.figures.topics) == 2
    assert sorted(each.member_info.is_lease for each in made.figures.members)[0] is False
    assert any(each.member_info.is_lease for each in made.figures.members)
    assert not made.figures.holes.any
    assert made.figures.total.waited.total() >= 2_000, "when records were produced is known of what members got"
    assert "</html>" in made.page.read_text()

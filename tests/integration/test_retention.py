"""Retention that overtakes a group, on real brokers: remaining records are delivered, and lost ones reported."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition

from tests.integration.bench import Bench
from tests.integration.feeding import upstream_records
from tests.integration.processes import eventually

DELETED = 10
"""Records of each partition of one cluster, behind the group's commit."""


@pytest.mark.long
def test_what_is_deleted_before_the_group_has_it_is_counted_and_named(bench: Bench) -> None:
    eu, us = bench.clusters
    mesh = bench.start_mesh(upstream={cluster.name: {"engine": "raw"} for cluster in bench.clusters})
    bench.feed(600)
    bench.confluent("before", commit="sync")
    bench.account_when_all_arrived().assert_each_once()
    bench.until_all_committed()
    bench.close_members()
    mesh.stop()

    bench.feed(3_000)
    begins = [
        TopicPartition(bench.topic, partition, offset + DELETED)
        for (topic, partition), offset in eu.committed(bench.group).items()
        if topic == bench.topic
    ]
    assert len(begins) == 3
    admin = eu.admin()
    for done in admin.delete_records(begins).values():
        done.result(30)
    had = {delivery.id for delivery in bench.deliveries()}
    left = (upstream_records(eu, bench.topic).keys() | upstream_records(us, bench.topic).keys()) - had

    mesh.restart()
    member = bench.confluent("after", commit="sync")
    eventually("what is left comes", lambda: {delivery.id for delivery in member.deliveries} >= left)
    assert {delivery.id for delivery in member.deliveries} == left
    assert len(begins) * DELETED == mesh.metric("kafka_mesh_gone_offsets_total", group=bench.group)
    told = [each for each in mesh.log_entries() if each["event"] == "unread offsets skipped: gone upstream"]
    assert sorted(each["span"] for each in told) == sorted(
        f"{each.offset - DELETED}..{each.offset - 1}" for each in begins
    )
    bench.close_members()

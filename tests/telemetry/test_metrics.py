from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from mesh.records.batch import RecordBatch
from mesh.telemetry import slices
from mesh.telemetry.fast_counters import PART
from mesh.telemetry.labels import LONGEST, OTHER, BoundedLabels
from mesh.telemetry.metric_definitions import (
    BACKLOG_RECORDS,
    FAMILIES,
    IN_FLIGHT_RECORDS,
    MEMBERS,
    PARKED_FETCHES,
    UPSTREAM_LAG,
    MetricSample,
)
from mesh.telemetry.metrics import Metrics
from mesh.wire.errors import ErrorCode

Series = dict[tuple[str, ...], float]
ORDER = (
    "virtual_cluster",
    "group",
    "member",
    "client_id",
    "cluster",
    "topic",
    "partition",
    "api",
    "error",
    "reason",
    "result",
)


def exposed(metrics: Metrics, name: str) -> Series:
    """The samples of that name, by the values of their labels in the order above."""
    return series_in(b"".join(metrics.exposition()).decode(), name)


def series_in(text: str, name: str) -> Series:
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {
        tuple(sample.labels[label] for label in ORDER if label in sample.labels): sample.value
        for sample in samples
        if sample.name == name
    }


def test_records_and_bytes() -> None:
    metrics = Metrics()
    metrics.received(
        "eu", "orders", "raw", [RecordBatch(bytearray(70), 0, 0, 2, 3), RecordBatch(bytearray(80), 3, 3, 3, 1)]
    )
    metrics.received("eu", "orders", "raw", [RecordBatch(bytearray(70), 4, 4, 4, 1)])
    metrics.sent("shop", "billing", "orders", 5, 500)
    metrics.sent("shop", "billing", "orders", 1, 100)
    metrics.redelivered("shop", "billing", 2)
    metrics.committed("shop", "billing", ErrorCode.NONE)
    assert exposed(metrics, "kafka_mesh_records_in_total") == {("eu", "orders"): 5}
    assert exposed(metrics, "kafka_mesh_bytes_in_total") == {("eu", "orders"): 220}
    assert exposed(metrics, "kafka_mesh_records_out_total") == {("shop", "billing", "orders"): 6}
    assert exposed(metrics, "kafka_mesh_bytes_out_total") == {("shop", "billing", "orders"): 600}
    assert exposed(metrics, "kafka_mesh_redelivered_records_total") == {("shop", "billing"): 2}
    assert exposed(metrics, "kafka_mesh_commits_total") == {("shop", "billing", "NONE"): 1}


def test_requests_and_troubles() -> None:
    metrics = Metrics()
    metrics.request("shop", "FETCH", ErrorCode.NONE, 0.3)
    metrics.request("shop", "FETCH", ErrorCode.UNKNOWN_MEMBER_ID, 0.1)
    metrics.protocol_error("shop", "frame_size")
    metrics.violation("shop")
    metrics.upstream_commit("eu", stored=True)
    metrics.upstream_commit("us", stored=False)
    metrics.engine_failed("us")
    metrics.loop_lag(0.002)
    assert exposed(metrics, "kafka_mesh_requests_total") == {
        ("shop", "FETCH", "NONE"): 1,
        ("shop", "FETCH", "UNKNOWN_MEMBER_ID"): 1,
    }
    assert exposed(metrics, "kafka_mesh_request_seconds_sum") == {("shop", "FETCH"): pytest.approx(0.4)}
    assert exposed(metrics, "kafka_mesh_protocol_errors_total") == {("shop", "frame_size"): 1}
    assert exposed(metrics, "kafka_mesh_pool_violations_total") == {("shop",): 1}
    assert exposed(metrics, "kafka_mesh_upstream_commits_total") == {("eu", "stored"): 1, ("us", "failed"): 1}
    assert exposed(metrics, "kafka_mesh_engine_failures_total") == {("us",): 1}
    assert exposed(metrics, "kafka_mesh_event_loop_lag_seconds_count") == {(): 1}


def test_states_are_collected_at_the_scrape() -> None:
    metrics = Metrics()
    parked = {"billing": 1}
    metrics.add_collector(
        lambda: [MetricSample(PARKED_FETCHES, ("shop", group), count) for group, count in parked.items()]
    )
    metrics.add_collector(lambda: [MetricSample(PARKED_FETCHES, ("audit", "billing"), 7)])
    assert exposed(metrics, "kafka_mesh_parked_fetches") == {("shop", "billing"): 1, ("audit", "billing"): 7}
    parked.update(billing=2, fraud=3)
    assert exposed(metrics, "kafka_mesh_parked_fetches")[("shop", "billing")] == 2
    del parked["billing"]
    assert exposed(metrics, "kafka_mesh_parked_fetches") == {("shop", "fraud"): 3, ("audit", "billing"): 7}


def test_samples_with_the_same_labels_are_added_up() -> None:
    metrics = Metrics()
    metrics.add_collector(
        lambda: [MetricSample(BACKLOG_RECORDS, ("shop", "billing", "orders"), count) for count in (3, 4)]
    )
    assert exposed(metrics, "kafka_mesh_backlog_records") == {("shop", "billing", "orders"): 7}


def test_a_thousand_groups() -> None:
    """All groups together are counted right, but only so many have their own names."""
    metrics = Metrics()
    names = [f"group-{number}" for number in range(1_000)]
    metrics.add_collector(lambda: [MetricSample(MEMBERS, ("shop", name), 1) for name in names])
    for name in names:
        metrics.sent("shop", name, "orders", 1, 10)
        metrics.committed("shop", name, ErrorCode.NONE)
        metrics.redelivered("shop", name, 1)
        metrics.gone("shop", name, 1)
        metrics.dead_letter("shop", name)
        metrics.dead_letter_failed("shop", name)
    for metric in (
        "kafka_mesh_members",
        "kafka_mesh_records_out_total",
        "kafka_mesh_commits_total",
        "kafka_mesh_redelivered_records_total",
        "kafka_mesh_gone_offsets_total",
        "kafka_mesh_dead_letters_total",
        "kafka_mesh_dead_letter_failures_total",
    ):
        series = exposed(metrics, metric)
        assert len(series) == 101, metric
        assert sum(series.values()) == 1_000
        assert sum(value for labels, value in series.items() if labels[1] == OTHER) == 900


def test_a_group_that_went_makes_room() -> None:
    metrics = Metrics(groups=1)
    for name in ("first", "second"):
        metrics.sent("shop", name, "orders", 1, 10)
        metrics.committed("shop", name, ErrorCode.NONE)
    metrics.forget_group("shop", "first")
    metrics.forget_group("shop", "unheard-of")
    assert exposed(metrics, "kafka_mesh_records_out_total") == {("shop", OTHER, "orders"): 1}
    assert exposed(metrics, "kafka_mesh_commits_total") == {("shop", OTHER, "NONE"): 1}
    metrics.sent("shop", "second", "orders", 1, 10)
    assert exposed(metrics, "kafka_mesh_records_out_total")[("shop", "second", "orders")] == 1


def test_a_group_that_comes_again_is_counted() -> None:
    metrics = Metrics()
    metrics.sent("shop", "billing", "orders", 5, 10)
    metrics.forget_group("shop", "billing")
    metrics.sent("shop", "billing", "orders", 2, 10)
    assert exposed(metrics, "kafka_mesh_records_out_total") == {("shop", "billing", "orders"): 2}


def test_members_are_bounded_by_group_and_make_room() -> None:
    metrics = Metrics(members=2)
    present = ["a", "b", "c", "d"]
    metrics.add_collector(
        lambda: [
            MetricSample(IN_FLIGHT_RECORDS, ("shop", group, name, "rdkafka"), 1) for group in "xy" for name in present
        ]
    )
    by_member = {
        ("shop", "x", "a", "rdkafka"): 1.0,
        ("shop", "x", "b", "rdkafka"): 1,
        ("shop", "x", OTHER, "rdkafka"): 2,
    }
    assert by_member.items() <= exposed(metrics, "kafka_mesh_in_flight_records").items()
    assert len(exposed(metrics, "kafka_mesh_in_flight_records")) == 6
    present[:] = ["c", "d"]
    exposed(metrics, "kafka_mesh_in_flight_records")
    assert ("shop", "x", "c", "rdkafka") in exposed(metrics, "kafka_mesh_in_flight_records")


def test_topics_and_partitions_are_bounded() -> None:
    metrics = Metrics(topics=3, partitions=2)

    def lags() -> Iterator[MetricSample]:
        for topic in range(10):
            for partition in range(10):
                yield MetricSample(UPSTREAM_LAG, ("shop", "billing", "eu", f"topic-{topic}", str(partition)), 1)

    metrics.add_collector(lags)
    series = exposed(metrics, "kafka_mesh_upstream_lag_records")
    assert sum(series.values()) == 100
    assert {labels[3] for labels in series} == {"topic-0", "topic-1", "topic-2", OTHER}
    assert {labels[4] for labels in series if labels[3] == "topic-0"} == {"0", "1", OTHER}
    for number in range(10):
        metrics.received("eu", f"topic-{number}", "raw", [])
    assert len(exposed(metrics, "kafka_mesh_records_in_total")) == 4


@given(
    st.lists(
        st.text(max_size=20) | st.sampled_from(['"} evil 1', "a\nb", "\ud800", "x" * 40_000, "", OTHER]), max_size=8
    )
)
def test_hostile_names(names: list[str]) -> None:
    """With any names of clients, the exposition can be read, and nothing is counted twice."""
    metrics = Metrics(groups=3)
    metrics.add_collector(lambda: [MetricSample(MEMBERS, ("shop", name), 1) for name in names])
    metrics.add_collector(lambda: [MetricSample(IN_FLIGHT_RECORDS, ("shop", "g", name, name), 1) for name in names])
    for name in names:
        metrics.sent("shop", name, "orders", 1, 1)
    text = "".join(
        line for line in b"".join(metrics.exposition()).decode().splitlines(True) if not line.startswith("process_")
    )
    for metric in ("kafka_mesh_members", "kafka_mesh_in_flight_records", "kafka_mesh_records_out_total"):
        series = series_in(text, metric)
        assert sum(series.values()) == len(names)
        assert all(len(value) <= LONGEST for labels in series for value in labels)
    for name in names:
        metrics.forget_group("shop", name)
    assert {labels[1] for labels in exposed(metrics, "kafka_mesh_records_out_total")} <= {OTHER}


def test_names_and_help() -> None:
    metrics = Metrics()
    families = list(text_string_to_metric_families(b"".join(metrics.exposition()).decode()))
    ours = [family for family in families if not family.name.startswith("process_")]
    assert {family.name.removesuffix("_total") for family in FAMILIES} <= {family.name for family in ours}
    for family in ours:
        assert family.name.startswith("kafka_mesh_")
        assert family.documentation.endswith(".")


def test_two_instances_know_nothing_of_each_other() -> None:
    one, two = Metrics(), Metrics()
    one.violation("shop")
    assert exposed(two, "kafka_mesh_pool_violations_total") == {}


def test_bounded_labels() -> None:
    labels = BoundedLabels(2)
    assert [labels.admit(value) for value in "abcab"] == ["a", "b", OTHER, "a", "b"]
    assert labels.admit("c", scope=("elsewhere",)) == "c"
    assert labels.forget("a") == "a"
    assert labels.forget("a") is None
    assert labels.admit("c") == "c"
    labels.keep_only({(("elsewhere",), "c")})
    assert [labels.admit(value) for value in "dec"] == ["d", "e", OTHER]


def test_a_metric_with_many_series_is_written_in_parts_under_one_head() -> None:
    metrics, count = Metrics(topics=10_000, partitions=10_000), 3 * PART + 1
    for number in range(count):
        metrics.received("eu", f"topic-{number}", "raw", [])
    lags = [MetricSample(UPSTREAM_LAG, ("vc", "g", "eu", "t", str(number)), number) for number in range(count)]
    metrics.add_collector(lambda: lags)
    pieces = list(metrics.exposition())
    assert max(piece.count(b"\n") for piece in pieces) <= PART + 2
    text = b"".join(pieces).decode()
    for name in ("kafka_mesh_records_in_total", "kafka_mesh_upstream_lag_records"):
        assert len(series_in(text, name)) == count
        assert text.count(f"# HELP {name} ") == text.count(f"# TYPE {name} ") == 1
    assert len(list(text_string_to_metric_families(text))) == text.count("# TYPE ")


@pytest.mark.anyio
async def test_other_work_has_its_turn_while_metrics_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE", 0.0)
    metrics, partitions = Metrics(), {number: number for number in range(5 * PART)}
    metrics.add_collector(
        lambda: (MetricSample(BACKLOG_RECORDS, ("vc", "g", "t"), each) for each in tuple(partitions.values()))
    )

    async def change() -> None:
        for number in itertools.count(1):
            partitions[-number] = number
            turns.append(number)
            await asyncio.sleep(0)

    turns: list[int] = []
    changing = asyncio.get_running_loop().create_task(change())
    text = b"".join(await slices.in_slices(metrics.exposition())).decode()
    changing.cancel()
    assert len(turns) > 10
    assert series_in(text, "kafka_mesh_backlog_records")

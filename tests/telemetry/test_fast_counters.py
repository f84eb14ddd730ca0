"""Counters that use plain additions are exported as the library would export them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest

from mesh.telemetry.fast_counters import FastCounter, FastHistogram

BOUNDS = (0.001, 0.5, 10.0)
disable_created_metrics()  # type: ignore[no-untyped-call]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1_000))))
def test_a_counter_is_exported_as_the_library_does_it(events: list[tuple[str, int]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    fast_counter = FastCounter("requests", "Answered.", ("cluster", "api"), ours)
    counter = Counter("requests", "Answered.", ("cluster", "api"), registry=theirs)
    for cluster, count in events:
        fast_counter.labels(cluster, "FETCH").value += count
        counter.labels(cluster, "FETCH").inc(count)
    assert generate_latest(ours) == generate_latest(theirs)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from((0.0, 0.0005, 0.001, 0.25, 0.5, 2.0, 10.0, 99.0)))))
def test_a_histogram_is_exported_as_the_library_does_it(events: list[tuple[str, float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    fast_histogram = FastHistogram("seconds", "Waited.", ("api",), ours, BOUNDS)
    histogram = Histogram("seconds", "Waited.", ("api",), registry=theirs, buckets=BOUNDS)
    for api, seconds in events:
        fast_histogram.labels(api).observe(seconds)
        histogram.labels(api).observe(seconds)
    assert generate_latest(ours) == generate_latest(theirs)


def test_series_are_forgotten_by_some_of_their_labels() -> None:
    registry = CollectorRegistry()
    fast_counter = FastCounter("records", "Sent.", ("group", "topic"), registry)
    for group in ("billing", "fraud"):
        for topic in ("orders", "returns"):
            fast_counter.labels(group, topic).value += 1
    fast_counter.remove_by_labels({"group": "billing"})
    shown = generate_latest(registry).decode()
    assert "billing" not in shown
    assert shown.count("fraud") == 2
    assert fast_counter.labels("billing", "orders").value == 0


def test_a_series_has_a_value_for_every_label() -> None:
    fast_counter = FastCounter("records", "Sent.", ("group", "topic"), CollectorRegistry())
    with pytest.raises(ValueError, match="1 values for the labels"):
        fast_counter.labels("billing")

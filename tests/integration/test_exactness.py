"""Keys, values, headers and timestamps of every shape and codec arrive as they are stored."""

from __future__ import annotations

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from tests.integration.bench import Bench


@pytest.mark.smoke
def test_every_shape_and_codec(bench: Bench) -> None:
    """The shapes of `varied_record` go round with periods prime to the codecs', so 2,000 hold every combination."""
    eu, us = bench.clusters
    us.delete_topic(bench.topic)
    us.create_topic(bench.topic, 3, {"message.timestamp.type": "LogAppendTime"})
    bench.start_mesh()
    bench.feed(4_000)
    types = {(each.cluster, each.record.timestamp_type) for each in bench.stored().values()}
    assert types == {(eu.name, TIMESTAMP_CREATE_TIME), (us.name, TIMESTAMP_LOG_APPEND_TIME)}

    bench.confluent("confluent", commit="sync")
    bench.account_when_all_arrived().assert_each_once()
    bench.close_members()


def test_kcat_sees_the_same(bench: Bench) -> None:
    bench.start_mesh()
    bench.feed(4_000)
    bench.kcat("kcat")
    bench.account_when_all_arrived().assert_each_once()
    bench.close_members()

"""Evaluation of clients' output."""

from __future__ import annotations

import pytest

from benchmarks.clients import progress, rate_of
from benchmarks.confluent_consumer import Receipts

CONSUMER = """time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms
2026-11-21 14:00:00.100, 0, 0.0001, 0.0010, 1, 10.0, 300
2026-11-21 14:00:00.300, 0, 19.1, 95.0, 200001, 1000000.0, 0
"""
SHARE = """start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms
2026-11-21 14:00:00.000, 2026-11-21 14:00:05.000, 0.0000, 0.0000, 0.0, 0, 0
2026-11-21 14:00:05.000, 2026-11-21 14:00:05.020, 0.0001, 0.0048, 50.0, 1, 20
2026-11-21 14:00:05.020, 2026-11-21 14:00:05.520, 4.7, 9.5, 100000.0, 50001, 520
"""


def test_the_rate_of_one_consumer_is_that_between_its_first_and_its_last_records() -> None:
    assert rate_of([[(10.0, 100), (12.0, 2_100)]]) == 1_000.0


def test_the_rate_of_several_is_that_of_the_time_when_all_of_them_receive() -> None:
    early, late = [(0.0, 0), (10.0, 1_000)], [(8.0, 50), (12.0, 450)]
    assert rate_of([early, late]) == pytest.approx(100.0 + 100.0)


def test_the_rate_of_consumers_that_never_receive_at_the_same_time_is_that_of_the_whole_time() -> None:
    assert rate_of([[(0.0, 1), (1.0, 10)], [(4.0, 1), (5.0, 11)]]) == pytest.approx((9 + 11) / 5)


def test_what_came_all_at_once_took_no_longer_than_a_sample() -> None:
    assert rate_of([[(1.0, 100), (1.0, 100)]]) == pytest.approx(100 / 0.02)


def test_the_table_of_the_consumer_tool_is_read_from_its_first_records_on() -> None:
    assert rate_of([progress(CONSUMER)]) == pytest.approx(1_000_000.0)


def test_the_table_of_the_tool_for_share_groups_leaves_out_the_wait_for_an_assignment() -> None:
    samples = progress(SHARE)
    assert [count for _, count in samples] == [1, 50_001]
    assert rate_of([samples]) == pytest.approx(100_000.0)


@pytest.mark.parametrize("output", ["", "Usage: what, else\n", CONSUMER.splitlines()[0]])
def test_output_without_figures_is_refused(output: str) -> None:
    with pytest.raises(RuntimeError):
        progress(output)


def test_receipts_end_with_the_last_record_although_not_every_one_is_a_sample() -> None:
    receipts = Receipts()
    for _ in range(100):
        receipts.add(3)
    assert receipts.samples[0][1] == 3
    assert len(receipts.samples) < 100
    assert receipts.all()[-1][1] == 300
    assert Receipts().all() == []

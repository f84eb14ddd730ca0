"""How the two lanes of a broker share its partitions."""

from __future__ import annotations

from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.raw.lanes import MANY, PARKED_MS, PATIENCE, SOON_MS, Lane
from mesh.upstream.raw.reading import Reading

NOW = 100.0


def readings(count: int, *, behind: bool) -> list[Reading]:
    return [
        Reading(UpstreamPartition(ClusterName("eu"), TopicName("orders"), number), 7, reported_end=9 if behind else 7)
        for number in range(count)
    ]


def lanes() -> tuple[Lane, Lane]:
    return Lane.pair(*(BrokerLink("127.0.0.1", port, ConnectionSettings()) for port in (1, 2)))


def test_half_of_many_partitions_is_left_to_a_lane_that_is_free() -> None:
    parking, soon = lanes()
    wanted = readings(MANY, behind=True)
    mine = parking.select(wanted)
    assert len(mine) == MANY // 2
    assert soon.woken.is_set()
    assert parking.request_sent(mine) == PARKED_MS
    rest = [each for each in wanted if each not in mine]
    assert soon.select(rest) == rest
    soon.request_sent(rest)
    # Each continues with its own.
    parking.request_ended()
    assert parking.select(mine) == mine
    assert parking.request_sent(mine) == SOON_MS


def test_all_is_taken_of_few_and_beside_a_lane_that_is_busy() -> None:
    parking, soon = lanes()
    few = [*readings(MANY - 1, behind=True), *readings(MANY, behind=False)]
    assert parking.select(few) == few
    many = readings(MANY, behind=True)
    soon.request_sent(many[:1])
    assert parking.select(many) == many
    soon.request_ended()
    parking.request_sent(readings(1, behind=False))
    assert soon.select(many) == many, "it is parked for half a second"


def test_half_is_left_to_a_lane_that_is_free_soon() -> None:
    parking, soon = lanes()
    soon.request_sent(readings(3, behind=False))
    many = readings(MANY, behind=True)
    assert len(parking.select(many)) == MANY // 2


def test_the_lane_that_parks_takes_over_what_the_other_one_asks_for_in_vain() -> None:
    parking, soon = lanes()
    soon.request_sent(readings(3, behind=False))
    assert parking.decide_to_wait(NOW)
    assert not parking.woken.is_set()
    soon.request_ended()
    assert parking.woken.is_set()
    assert soon.decide_to_wait(NOW)
    assert not parking.decide_to_wait(NOW)
    # It does so once.
    assert not soon.decide_to_wait(NOW)


def test_what_brings_records_is_not_taken_over() -> None:
    parking, soon = lanes()
    soon.request_sent(readings(3, behind=True))
    assert not parking.decide_to_wait(NOW)


def test_nobody_waits_for_a_lane_that_is_closed() -> None:
    parking, soon = lanes()
    soon.request_sent(readings(3, behind=False))
    assert parking.decide_to_wait(NOW)
    soon.closed()
    assert parking.woken.is_set()
    assert not parking.decide_to_wait(NOW)


def test_a_lane_that_hangs_is_not_waited_for_for_long() -> None:
    """It keeps its partitions if its answer comes after all."""
    parking, soon = lanes()
    soon.request_sent(readings(3, behind=False))
    assert parking.decide_to_wait(NOW)
    assert parking.decide_to_wait(NOW + PATIENCE / 2)
    assert not parking.decide_to_wait(NOW + PATIENCE)
    soon.request_ended()
    assert not soon.decide_to_wait(NOW + PATIENCE)

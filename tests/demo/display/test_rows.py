"""Rows: the demo's own consumers, and those of others."""

from __future__ import annotations

from mesh.demo.display.rows import SPAN, MemberRow, Recent, member_rows
from mesh.demo.processes.snapshot import TopicSnapshot
from mesh.demo.stage import GROUP, StageState
from tests.demo.snapshots import member, snapshot

RUNNING, FROZEN, KILLED = StageState.RUNNING, StageState.FROZEN, StageState.KILLED


def test_own_consumers_first_then_those_of_others() -> None:
    recent = Recent()
    one, two = member("x1", client_id="rdkafka"), member("x2", client_id="rdkafka", group="mine")
    own = member("m1", client_id="a")
    recent.add(snapshot(0.0, one, two, own))
    assert member_rows(recent, {"a": RUNNING, "b": RUNNING}) == [
        MemberRow("a", GROUP, RUNNING, own, None),
        MemberRow("b", GROUP, RUNNING, None, None),
        MemberRow("rdkafka", GROUP, None, one, None),
        MemberRow("rdkafka (2)", "mine", None, two, None),
    ]


def test_a_killed_consumer_has_a_row_as_long_as_the_mesh_knows_it() -> None:
    recent = Recent()
    recent.add(snapshot(0.0, member("a")))
    assert [row.name for row in member_rows(recent, {"a": KILLED})] == ["a"]
    recent.add(snapshot(1.0))
    assert member_rows(recent, {"a": KILLED}) == []
    assert [row.name for row in member_rows(recent, {"a": FROZEN})] == ["a"]


def test_shares_are_of_late_and_within_a_group() -> None:
    recent = Recent()
    recent.add(snapshot(0.0, member("a", 1_000_000), member("b", 0), member("z", 0, group="mine")))
    recent.add(snapshot(SPAN, member("a", 1_000_030), member("b", 60), member("c", 10), member("z", 7, group="mine")))
    assert recent.shares() == {"a": 0.3, "b": 0.6, "c": 0.1, "z": 1.0}
    recent.add(
        snapshot(2 * SPAN, member("a", 1_000_030), member("b", 61), member("c", 10), member("z", 7, group="mine"))
    )
    assert recent.shares() == {"a": 0.0, "b": 1.0, "c": 0.0}


def test_rates_of_topics() -> None:
    recent = Recent()
    assert recent.topics() == []
    recent.add(snapshot(0.0, topics=(TopicSnapshot("orders", {"eu": 100}, 80, 20),)))
    recent.add(
        snapshot(
            4.0, topics=(TopicSnapshot("orders", {"eu": 500, "us": 40}, 480, 60), TopicSnapshot("new", {"eu": 4}, 4, 0))
        )
    )
    orders, new = recent.topics()
    assert (orders.received_rates, orders.delivered_rate) == ({"eu": 100.0, "us": 10.0}, 100.0)
    assert (new.received_rates, new.delivered_rate) == ({"eu": 1.0}, 1.0)


def test_before_anything_was_seen() -> None:
    assert (Recent().latest, Recent().shares(), member_rows(Recent(), {})) == (None, {}, [])

"""The orders in which Spark calls a source, measured with Spark 4.2 and 4.3, and the requests to the mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pyspark_kafka_mesh.client import Client, LeaseLost, MeshUnavailable
from pyspark_kafka_mesh.driver import Driver
from pyspark_kafka_mesh.offsets import Offset, Range
from pyspark_kafka_mesh.options import Options
from pyspark_kafka_mesh.renewing import Renewing


class FakeClient(Client):
    """A mesh that has `batches` batches. asked: the requests that it got, by the names of leases."""

    def __init__(self, batches: int = 9) -> None:
        super().__init__(Options(("http://mesh",), "vc", ("orders",), "shop"))
        self.left = batches
        self.asked: list[tuple[str, str | None]] = []
        self.lost = False

    def lease(self, start: Offset, most: int | None, ends: Sequence[dict[str, Any]] | None = None) -> Offset:
        self.asked.append(("lease after", start.lease))
        if not self.left:
            return start
        self.left -= 1
        number = int(start.lease or "0") + 1
        return Offset(start.holder, str(number), (Range("eu", "orders", 0, number, number),), (("eu", "eu:9092"),))

    def acknowledge(self, offset: Offset) -> None:
        self.asked.append(("acknowledge", offset.lease))
        if self.lost:
            raise LeaseLost(str(offset.lease), offset.ranges)

    def renew(self, offset: Offset) -> None:
        if self.lost:
            raise LeaseLost(str(offset.lease), offset.ranges)

    def claim(self, offset: Offset) -> None:
        self.asked.append(("claim", offset.lease))

    def backlog(self) -> dict[str, int]:
        raise MeshUnavailable("away")


class FakeRenewing(Renewing):
    def __init__(self) -> None:
        super().__init__(FakeClient())
        self.held: set[str | None] = set()

    def renew(self, offset: Offset) -> None:
        self.held.add(offset.lease)

    def forget(self, offset: Offset) -> None:
        self.held.discard(offset.lease)


def driver(client: FakeClient) -> tuple[Driver, FakeRenewing]:
    renewing = FakeRenewing()
    return Driver(client, renewing), renewing


def test_a_first_run() -> None:
    client = FakeClient(batches=2)
    one, renewing = driver(client)
    start = one.initial
    assert one.initial == start, "Spark asks twice"
    first = one.after(start, 10)
    one.hold(first)
    assert renewing.held == {"1"}
    second = one.after(first, 10)
    one.acknowledge(first)  # Spark's commit, which comes late
    one.hold(second)
    assert one.after(second, 10) == second
    assert one.after(second, 10) == second
    assert client.asked == [
        ("lease after", None),
        ("acknowledge", "1"),
        ("lease after", "1"),
        ("acknowledge", "2"),
        ("lease after", "2"),
        ("lease after", "2"),
    ]
    assert renewing.held == set()
    assert second.holder == start.holder


def test_killed_while_it_read() -> None:
    """Spark plans the batch again from the checkpoint first, without asking for offsets."""
    client = FakeClient()
    logged = Offset("of the checkpoint", "4", (Range("eu", "orders", 0, 4, 4),))
    one, renewing = driver(client)
    one.hold(logged)
    assert renewing.held == {"4"}
    assert one.after(logged, None).holder == "of the checkpoint"
    assert client.asked == [("claim", "4"), ("acknowledge", "4"), ("lease after", "4")]


def test_stopped_in_its_very_first_batch() -> None:
    """Spark asks for an initial offset again, which belongs to another holder; the batch's own counts."""
    client = FakeClient()
    logged = Offset("of the checkpoint", "1", (Range("eu", "orders", 0, 1, 1),))
    one, _ = driver(client)
    assert one.initial.holder != logged.holder
    one.hold(logged)
    assert one.after(logged, None).holder == "of the checkpoint"


def test_killed_between_the_sinks_commit_and_sparks() -> None:
    """The file sink knows the batch: Spark does not read it again, and asks for the next one at once."""
    client = FakeClient()
    one, _ = driver(client)
    one.after(Offset("of the checkpoint", "4"), None)
    assert client.asked == [("acknowledge", "4"), ("lease after", "4")]


def test_what_was_lost_is_said_when_it_is_acknowledged() -> None:
    client = FakeClient()
    one, _ = driver(client)
    first = one.after(one.initial, None)
    client.lost = True
    with pytest.raises(LeaseLost):
        one.after(first, None)


def test_what_was_lost_while_it_was_read_is_said_before_it_is_acknowledged() -> None:
    """The members that got these records may have processed them: then an acknowledgement would find them settled."""
    client = FakeClient()
    renewing = Renewing(client)
    one = Driver(client, renewing)
    first = one.after(one.initial, None)
    client.lost = True
    renewing.once()
    client.lost = False
    with pytest.raises(LeaseLost):
        one.after(first, None)
    assert ("acknowledge", first.lease) not in client.asked
    renewing.stop()


def test_progress_is_not_worth_failing_for() -> None:
    assert driver(FakeClient())[0].backlog() is None

"""When the engine reports that partitions cannot be read, and when it reports the end of that."""

from __future__ import annotations

from mesh.records.spans import ClusterName, TopicName, UpstreamPartition
from mesh.upstream.engine import ReadingDown, ReadingUp
from mesh.upstream.problems import UpstreamProblem
from mesh.upstream.raw.health import PATIENCE, Health

ONE, TWO = (UpstreamPartition(ClusterName("eu"), TopicName("orders"), number) for number in (1, 2))
BOTH = {ONE, TWO}


class Told:
    def __init__(self) -> None:
        self.events: list[ReadingDown | ReadingUp] = []
        self.health = Health(self.events.append)

    def fail(
        self, now: float, source: UpstreamPartition = ONE, problem: UpstreamProblem = UpstreamProblem.UNREADABLE
    ) -> None:
        self.health.failed(source, now, f"since {now:g}", problem)

    def look(self, now: float, wanted: set[UpstreamPartition] = BOTH) -> list[ReadingDown | ReadingUp]:
        self.events.clear()
        self.health.check(now, wanted)
        return list(self.events)


def test_what_heals_soon_is_told_to_nobody() -> None:
    told = Told()
    told.fail(0)
    assert told.look(PATIENCE - 1) == []
    told.health.worked(ONE)
    assert told.look(PATIENCE + 1) == []


def test_told_once_with_the_newest_reason_and_over_when_all_works() -> None:
    told = Told()
    told.fail(0)
    told.fail(5)
    told.fail(7, TWO)
    assert told.look(PATIENCE) == [ReadingDown("eu/orders-1: since 5")]
    assert told.look(PATIENCE + 8) == []
    told.health.worked(ONE)
    assert told.look(PATIENCE + 9) == []
    told.health.worked(TWO)
    assert told.look(PATIENCE + 10) == [ReadingUp()]
    assert told.look(PATIENCE + 11) == []


def test_several_partitions_are_counted() -> None:
    told = Told()
    told.fail(0)
    told.fail(0, TWO)
    assert told.look(PATIENCE) == [ReadingDown("eu/orders-1: since 0, and 1 partitions more")]


def test_what_is_forbidden_is_told_at_once_and_goes_before_all_else() -> None:
    told = Told()
    told.fail(0)
    assert told.look(PATIENCE) == [ReadingDown("eu/orders-1: since 0")]
    told.fail(PATIENCE, TWO, UpstreamProblem.NOT_AUTHORIZED)
    reason = f"eu/orders-2: since {PATIENCE:g}, and 1 partitions more"
    assert told.look(PATIENCE) == [ReadingDown(reason, UpstreamProblem.NOT_AUTHORIZED)]


def test_nothing_is_known_of_what_nobody_wants() -> None:
    told = Told()
    told.fail(0)
    assert len(told.look(PATIENCE)) == 1
    assert told.look(PATIENCE + 1, {TWO}) == [ReadingUp()]


def test_a_cluster_that_is_down_is_told_by_others() -> None:
    told = Told()
    told.health.is_cluster_down = True
    told.fail(0)
    assert told.look(PATIENCE) == []
    told.health.is_cluster_down = False
    assert len(told.look(PATIENCE)) == 1


def test_what_librdkafkas_side_is_refused_is_one_problem_with_what_we_are() -> None:
    """The problem is over when both are."""
    told, refused = Told(), ReadingDown("orders: refused", UpstreamProblem.NOT_AUTHORIZED)
    told.fail(0)
    assert told.look(PATIENCE) == [ReadingDown("eu/orders-1: since 0")]
    told.health.of_group = refused
    assert told.look(PATIENCE + 1) == [refused]
    told.fail(PATIENCE + 1, TWO, UpstreamProblem.NOT_AUTHORIZED)
    assert told.look(PATIENCE + 2) == []
    told.health.of_group = None
    told.health.worked(ONE)
    assert told.look(PATIENCE + 3) == []
    told.health.worked(TWO)
    assert told.look(PATIENCE + 4) == [ReadingUp()]

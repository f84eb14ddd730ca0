"""An operator of a pool, made of plain values: records are settled, buried, released, or delivered again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mesh.pool.interventions import Action, NotPossible, RunPlace
from mesh.pool.pool import Pool
from mesh.pool.replay.service import NotReplayed, ReplayedPartition
from mesh.pool.state.replayed import ALL, RecordFilter, Replay, ReplayId
from mesh.records.spans import Span
from tests.pool.harness import Consumer, World, source


def intervene(world: World, action: Action, index: int, span: Span) -> list[RunPlace]:
    """The earlier places of the records. Raises NotPossible."""
    places: list[RunPlace] = []
    problems: list[NotPossible] = []

    def step(pool: Pool) -> None:
        try:
            places.extend(pool.interventions.carry_out(action, source(index), span, world.now))
        except NotPossible as problem:
            problems.append(problem)

    world.upstream(step)
    if problems:
        raise problems[0]
    return places


def offsets_of(places: list[RunPlace]) -> set[int]:
    return {offset for place in places for offset in range(place.span.first, place.span.last + 1)}


def begin_replay(
    world: World,
    spans: Mapping[int, Span],
    rate: int | None = None,
    chosen: RecordFilter = ALL,
    id: str = "first",
) -> list[ReplayedPartition]:
    """Begins a replay. Raises NotReplayed."""
    replay = Replay(ReplayId(id), 0, rate, chosen)
    asked = {source(index): span for index, span in spans.items()}
    return _replaying(world, lambda pool: pool.replaying.begin(replay, asked, world.now))


def cancel_replay(world: World, id: str = "first") -> list[ReplayedPartition]:
    """Cancels a replay. Raises NotReplayed."""
    return _replaying(world, lambda pool: pool.replaying.cancel(ReplayId(id), world.now))


def processed(world: World, consumers: Iterable[Consumer]) -> None:
    """Members take all records for them, and acknowledge these."""
    for consumer in consumers:
        before = -1
        while before < len(consumer.received):
            before = len(consumer.received)
            if not consumer.is_parked:
                consumer.fetch(wait=0.0)
            consumer.commit()
    world.check()


def _replaying(world: World, do: Callable[[Pool], list[ReplayedPartition]]) -> list[ReplayedPartition]:
    found: list[ReplayedPartition] = []
    problems: list[NotReplayed] = []

    def step(pool: Pool) -> None:
        try:
            found.extend(do(pool))
        except NotReplayed as problem:
            problems.append(problem)

    world.upstream(step)
    if problems:
        raise problems[0]
    return found

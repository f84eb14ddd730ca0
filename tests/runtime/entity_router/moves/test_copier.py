"""A copy between two sides that answer as brokers do, and fail as they do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from struct import pack_into, unpack_from
from typing import cast
from unittest.mock import AsyncMock
from uuid import UUID

import pytest

from mesh.routing.moves.copying import NotCopied
from mesh.runtime.entity_router.moves import copier as copier_module
from mesh.runtime.entity_router.moves.copier import Copier
from mesh.runtime.entity_router.moves.side import (
    PartitionFetchResult,
    SideRefused,
    SideUnavailable,
    TopicLayout,
    TopicSide,
)
from mesh.tasks import EndedByItself
from tests.routing.moves.test_copying import batch

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copier_module, "BACKOFF", 0.001)
    monkeypatch.setattr(copier_module, "IDLE", 0.001)


class Side:
    """A topic in memory, with records in partition 0. answers: errors of Produce, before anything is written; None: no
    answer, and nothing is written; True: no answer, but it is written. partitions: the number of partitions."""

    def __init__(self, *batches: bytes, start: int = 0) -> None:
        self.log = list(batches)
        self.start = start
        self.answers: list[int | bool | None] = []
        self.written: list[bytes] = []
        self.foreign: list[bytes] = []
        """Records of another writer in between."""
        self.partitions = 1

    @property
    def end(self) -> int:
        return _end(self.log[-1]) if self.log else self.start

    def forget(self) -> None:
        pass

    async def layout(self) -> TopicLayout:
        return TopicLayout(UUID(int=1), dict.fromkeys(range(self.partitions), 0))

    async def starts(self) -> list[int]:
        return [self.start, *self._of_others]

    async def ends(self) -> list[int]:
        return [self.end, *self._of_others]

    async def high_watermarks(self) -> list[int]:
        return await self.ends()

    @property
    def _of_others(self) -> list[int]:
        """The offsets of the partitions that were added."""
        return [0] * (self.partitions - 1)

    async def delete_before(self, offsets: Mapping[int, int]) -> None:
        self.start = offsets[0]

    async def fetch(self, partition: int, offset: int) -> PartitionFetchResult:
        if not self.start <= offset <= self.end:
            return PartitionFetchResult(1, memoryview(b""), -1, -1)
        found = b"".join(each for each in self.log if _end(each) > offset)
        return PartitionFetchResult(0, memoryview(found), self.start, self.end)

    async def produce(self, partition: int, data: bytes) -> tuple[int, int]:
        self.written.append(data)
        if self.foreign:
            self.log.append(self.foreign.pop())
        answer = self.answers.pop(0) if self.answers else 0
        if answer is None:
            raise SideUnavailable("no answer")
        if answer and answer is not True:
            return answer, -1
        if unpack_from(">q", data)[0]:
            return 87, -1  # producers count from 0 in each batch
        base = self.end
        copied = bytearray(data)
        pack_into(">q", copied, 0, base)
        self.log.append(bytes(copied))
        if answer is True:
            raise SideUnavailable("no answer, and it is written")
        return 0, base


def _end(data: bytes) -> int:
    base: int = unpack_from(">q", data)[0]
    delta: int = unpack_from(">i", data, 23)[0]
    return base + delta + 1


def copier_of(source: Side, target: Side) -> Copier:
    return Copier(cast(TopicSide, source), cast(TopicSide, target), 1, lambda: lambda producer: producer)


async def copied(source: Side, target: Side) -> Copier:
    """Copies up to the end of the source, and checks."""
    copier = copier_of(source, target)
    running = asyncio.get_running_loop().create_task(copier.run())
    reached = asyncio.get_running_loop().create_task(copier.wait_until_copied([source.end]))
    async with asyncio.timeout(10):
        await asyncio.wait([running, reached], return_when=asyncio.FIRST_COMPLETED)
    try:
        if running.done():
            await running
        await copier.check([source.end])
    finally:
        running.cancel()
        reached.cancel()
        with suppress(asyncio.CancelledError, BaseExceptionGroup):
            await running
    return copier


async def test_batches_are_copied_with_their_offsets() -> None:
    source, target = Side(batch(0), batch(2, 3), batch(5)), Side()
    copier = await copied(source, target)
    assert target.log == source.log
    assert (copier.copied, copier.left) == (7, 0)


async def test_it_goes_on_where_the_target_ends() -> None:
    source, target = Side(batch(0), batch(2, 3), batch(5)), Side(batch(0))
    await copied(source, target)
    assert target.log == source.log
    assert len(target.written) == 2


async def test_offsets_in_front_are_filled_and_deleted() -> None:
    source, target = Side(batch(40, 4), batch(44), start=41), Side()
    await copied(source, target)
    assert target.start == 41
    assert target.log[1:] == source.log
    assert _end(target.log[0]) == 40


async def test_an_empty_log_that_begins_late_ends_where_it_does() -> None:
    source, target = Side(start=30), Side()
    await copied(source, target)
    assert (target.start, target.end) == (30, 30)


@pytest.mark.parametrize("is_written", [None, True])
async def test_what_was_not_answered_is_written_once(is_written: bool | None) -> None:
    source, target = Side(batch(0), batch(2)), Side()
    target.answers = [0, is_written]
    await copied(source, target)
    assert target.log == source.log


@pytest.mark.parametrize("error", [45, 46, 47, 59])
async def test_a_batch_whose_sequence_is_refused_is_written_without_its_producer(error: int) -> None:
    source, target = Side(batch(0, producer=3)), Side()
    target.answers = [error]
    await copied(source, target)
    assert target.log == [batch(0)]


async def test_another_error_is_tried_again() -> None:
    source, target = Side(batch(0)), Side()
    target.answers = [6, 19]
    await copied(source, target)
    assert target.log == source.log


async def test_a_partition_whose_copy_ends_by_a_cancellation_of_other_code_is_told() -> None:
    """A task group passes over such an end: the move would never come to its cut."""
    source, target = Side(batch(0)), Side()
    target.produce = AsyncMock(side_effect=asyncio.CancelledError())  # type: ignore[method-assign]
    with pytest.raises(BaseExceptionGroup) as told:
        await copied(source, target)
    assert isinstance(told.value.exceptions[0], EndedByItself)


async def test_what_the_target_never_takes_is_told() -> None:
    source, target = Side(batch(0)), Side()
    target.answers = [10]
    with pytest.raises(BaseExceptionGroup) as told:
        await copied(source, target)
    assert isinstance(told.value.exceptions[0], SideRefused)


@pytest.mark.parametrize(
    "target",
    [
        Side(batch(0, value=b"w")),
        Side(batch(0), batch(2), batch(4)),
    ],
    ids=["other records", "more records"],
)
async def test_a_target_that_has_something_else_is_told(target: Side) -> None:
    with pytest.raises((NotCopied, BaseExceptionGroup)) as told:
        await copied(Side(batch(0), batch(2)), target)
    problem = told.value.exceptions[0] if isinstance(told.value, BaseExceptionGroup) else told.value
    assert isinstance(problem, NotCopied)
    assert problem.kind == "diverged"


async def test_a_target_that_somebody_else_writes_is_told() -> None:
    source, target = Side(batch(0), batch(2)), Side()
    target.foreign = [batch(0, value=b"w")]
    with pytest.raises(BaseExceptionGroup) as told:
        await copied(source, target)
    problem = told.value.exceptions[0]
    assert isinstance(problem, NotCopied)
    assert problem.kind == "diverged"


@pytest.mark.parametrize("added_to", ["source", "target"])
async def test_partitions_that_were_added_before_the_copy_are_told(added_to: str) -> None:
    source, target = Side(batch(0)), Side()
    (source if added_to == "source" else target).partitions = 2
    with pytest.raises(NotCopied, match=f"^partitions: the {added_to} has 2") as told:
        await copier_of(source, target).check_target()
    assert told.value.kind == "partitions"


@pytest.mark.parametrize("added_to", ["source", "target"])
async def test_partitions_that_were_added_during_the_copy_are_told(added_to: str) -> None:
    source, target = Side(batch(0)), Side()
    copier = await copied(source, target)
    (source if added_to == "source" else target).partitions = 2
    with pytest.raises(NotCopied, match=f"^partitions: the {added_to} has 2"):
        await rest_copied(copier, await source.ends())
    assert copier.left == 0


async def test_partitions_that_were_added_to_the_source_in_the_last_moment_are_told() -> None:
    source, target = Side(batch(0)), Side()
    copier = await copied(source, target)
    ends = await source.ends()
    source.partitions = 2
    with pytest.raises(NotCopied, match="partitions: the source has 2"):
        await rest_copied(copier, ends)


async def rest_copied(copier: Copier, ends: list[int]) -> None:
    await copier.wait_until_copied(ends)
    await copier.check(ends)

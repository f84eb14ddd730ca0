"""Copies a topic from one side of a move to the other, offset by offset, while producers write to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from mesh.routing.moves.copying import Fill, NotCopied, Put, Step, filling, fills, is_same, steps
from mesh.runtime.entity_router.moves.side import SideRefused, SideUnavailable, TopicSide
from mesh.tasks import finite
from mesh.wire.errors import ErrorCode

IDLE: Final = 0.02
"""Seconds until a source without new records is asked again."""
BACKOFF: Final = 1.0
"""Seconds to wait when a side did not answer. Requests to the target may still be carried out in this time."""
_OF_SEQUENCES: Final = frozenset({45, 46, 47, 59})
"""OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID."""
_NEVER: Final = frozenset({2, 10, 18, 29, 31, 32, 76, 87})
"""Errors that do not go away: corrupt, too large, list too large, not authorized (topic and cluster), timestamp,
compression, invalid record."""


class Copier:
    """The copy of one topic. width: the number of partitions. positions: the end of each partition at the target.
    copied: the number of records copied since the copy began."""

    def __init__(
        self, source: TopicSide, target: TopicSide, width: int, producers: Callable[[], Callable[[int], int]]
    ) -> None:
        """producers: returns the function that maps a producer id of the source to that of the target. It raises
        SideUnavailable while the mapping is not known."""
        self._source: Final = source
        self._target: Final = target
        self._width: Final = width
        self._producers: Final = producers
        self.positions: list[int] = [0] * width
        self._starts: list[int] = [0] * width
        self._ends: list[int] = [0] * width
        self._are_known = False
        self.copied = 0
        self._advanced = asyncio.Event()

    @property
    def left(self) -> int | None:
        """The number of records that the target lacks, as far as known; None before the first check."""
        if not self._are_known:
            return None
        return sum(max(end - position, 0) for end, position in zip(self._ends, self.positions, strict=True))

    async def run(self) -> None:
        """Copies until it is cancelled. Raises NotCopied, SideMissing, SideRefused."""
        while True:
            try:
                producers = self._producers()
                await self.check_target()
                break
            except SideUnavailable:
                await self._pause()
        async with asyncio.TaskGroup() as tasks:
            for partition in range(self._width):
                tasks.create_task(finite(self._copy, partition, producers), name=f"copy of partition {partition}")

    async def wait_until_copied(self, ends: Sequence[int]) -> None:
        """Returns when everything below these offsets of the source is copied. Raises NotCopied."""
        self._ends = self._of_each("source", ends)
        while any(position < end for position, end in zip(self.positions, ends, strict=True)):
            self._advanced.clear()
            await self._advanced.wait()

    async def check(self, ends: Sequence[int]) -> None:
        """Checks that both sides have the same records below these offsets. Raises NotCopied, SideUnavailable,
        SideMissing."""
        self._source.forget()
        self._target.forget()
        if (there := self._of_each("target", await self._target.ends())) != list(ends):
            raise NotCopied("diverged", f"the target ends at {there}, and not at {list(ends)}")
        starts = self._of_each("source", await self._source.starts())
        known = self._of_each("target", await self._target.starts())
        late = {partition: start for partition, start in enumerate(starts) if known[partition] < start}
        if late:
            await self._target.delete_before(late)
        await asyncio.gather(*(self._compare(partition) for partition in range(self._width)))

    async def check_target(self) -> None:
        """Looks up how far the target is, and checks that it has the records of the source. Raises NotCopied,
        SideUnavailable, SideMissing."""
        self._starts = self._of_each("source", await self._source.starts())
        self._ends = self._of_each("source", await self._source.high_watermarks())
        self.positions = self._of_each("target", await self._target.ends())
        self._are_known = True
        await asyncio.gather(*(self._compare(partition) for partition in range(self._width)))

    def _of_each(self, side: str, offsets: Sequence[int]) -> list[int]:
        """Returns the offsets of a side, if they are those of all partitions. Raises NotCopied."""
        if len(offsets) != self._width:
            raise NotCopied("partitions", f"the {side} has {len(offsets)}, and not {self._width}")
        return [*offsets]

    async def _compare(self, partition: int) -> None:
        """Checks that both sides have the last batch that was copied."""
        last = self.positions[partition] - 1
        if last < self._starts[partition]:
            return  # the source has none of these records
        ours, theirs = await self._source.fetch(partition, last), await self._target.fetch(partition, last)
        if ours.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            if last < (await self._source.ends())[partition]:
                return  # the source has deleted it
            raise NotCopied("diverged", f"the target has offset {last} of partition {partition}, the source has not")
        if ours.error or theirs.error:
            raise SideUnavailable(f"partition {partition} at offset {last}: errors {ours.error} and {theirs.error}")
        if not is_same(ours.records, theirs.records):
            raise NotCopied("diverged", f"the two sides have other records at offset {last} of partition {partition}")

    async def _copy(self, partition: int, producers: Callable[[int], int]) -> None:
        while True:
            try:
                if not await self._copy_more(partition, producers):
                    await asyncio.sleep(IDLE)
            except SideUnavailable:
                await self._pause()
                await self._found_again(partition)

    async def _found_again(self, partition: int) -> None:
        while True:
            try:
                self.positions[partition] = (await self._target.ends())[partition]
                await self._compare(partition)
            except SideUnavailable:
                await self._pause()
            else:
                self._advanced.set()
                return

    async def _copy_more(self, partition: int, producers: Callable[[int], int]) -> bool:
        """Copies more of a partition. Returns True if there was something to copy."""
        position = self.positions[partition]
        fetched = await self._source.fetch(partition, max(position, self._starts[partition]))
        if fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._starts = await self._source.starts()
            if position > (await self._source.ends())[partition]:
                raise NotCopied("diverged", f"the target has more of partition {partition} than the source")
            return False
        if fetched.error:
            raise SideUnavailable(f"fetch of partition {partition}: error {fetched.error}")
        self._starts[partition] = fetched.log_start
        self._ends[partition] = max(self._ends[partition], fetched.high_watermark)
        found: list[Step] = [*steps(fetched.records, position, fetched.log_start, producers)]
        if not found and position < fetched.log_start == fetched.high_watermark:
            found = [*fills(fetched.log_start - position, 0)]  # no records are left there, but their offsets count
        for step in found:
            await self._write(partition, step)
        return bool(found)

    async def _write(self, partition: int, step: Step) -> None:
        position = self.positions[partition]
        match step:
            case Fill(count=count):
                batch = await asyncio.to_thread(filling, step)
                error, base = await self._target.produce(partition, batch)
                self._check(partition, error, base, position)
                self.positions[partition] = position + count
            case Put():
                error, base = await self._target.produce(partition, step.batch)
                if error in _OF_SEQUENCES or (not error and base < position):  # the broker took it for a duplicate
                    error, base = await self._target.produce(partition, step.without_producer.batch)
                self._check(partition, error, base, position)
                self.copied += step.next - position
                self.positions[partition] = step.next
        self._advanced.set()

    def _check(self, partition: int, error: int, base: int, position: int) -> None:
        if error in _NEVER:
            raise SideRefused(f"write partition {partition} of the target", error)
        if error:
            raise SideUnavailable(f"write of partition {partition}: error {error}")
        if base != position:
            raise NotCopied("diverged", f"offset {position} of partition {partition} became {base}: others write it")

    async def _pause(self) -> None:
        self._source.forget()
        self._target.forget()
        await asyncio.sleep(BACKOFF)

"""The store: documents of groups in a compacted topic, which all processes of the same configuration share.

All of it is read at the start, and what other processes write is read as it comes; so reading takes no time. A document
is written with the acknowledgement of all replicas and then read back, before whoever writes it goes on. Of two that
are written at once the later one in the topic wins, and each writer is told what stood there directly before its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from mesh.upstream.events import EventChannel
from mesh.upstream.store.documents import (
    Document,
    DocumentKey,
    DocumentTooLarge,
    Kind,
    StoreAway,
    decode,
    encode,
)
from mesh.upstream.store.topic import Began, Failed, ReadTo, Stored, StoreEvent, StorePlace, StoreTopic

READ_BACK_TIMEOUT: Final = 5.0
"""Seconds in which a document that was written has to be read."""


class Store(Protocol):
    """Documents by kind, virtual cluster and group. Everything raises StoreError."""

    def get(self, kind: Kind, virtual_cluster: str, group: str) -> Document | None:
        """None if there is none."""

    def groups(self, kind: Kind, virtual_cluster: str) -> list[str]:
        """Those that have a document of this kind."""

    async def put(self, kind: Kind, virtual_cluster: str, group: str, document: Document | None) -> Document | None:
        """Returns, when all replicas have it, what stood there directly before. document: None takes it away."""


class _Write:
    """A document on its way. Compared by identity."""

    __slots__ = ("before", "changed")

    def __init__(self) -> None:
        self.before: dict[int, bytes | None] = {}
        """What stood there before each record with its key that was read meanwhile, by its offset."""
        self.changed = asyncio.Event()


class TopicStore:
    """A store in a topic. Implements `Store`.

    tell: called on the event loop with why the topic cannot be read, once until it can be again, and then with "".
    """

    def __init__(self, place: StorePlace, tell: Callable[[str], None]) -> None:
        """Raises KafkaException for properties that librdkafka refuses."""
        self._loop = asyncio.get_running_loop()
        self._tell = tell
        self._documents: dict[DocumentKey, bytes] = {}
        self._reading: dict[DocumentKey, bytes] | None = None
        """What has been read of the topic since it is being read from its beginning; None: all of it has been."""
        self._is_known = False
        """Whether all of the topic has ever been read."""
        self._writes: dict[DocumentKey, set[_Write]] = {}
        self.problem = "the store has not been read yet"
        """Why the topic cannot be read now; "" if it can be."""
        self._channel: EventChannel[StoreEvent] = EventChannel(self._loop, self._take)
        self._topic = StoreTopic(place, self._channel)

    async def close(self) -> None:
        self._channel.close()
        self._topic.stop()
        await asyncio.to_thread(self._topic.join)

    # Reading

    def get(self, kind: Kind, virtual_cluster: str, group: str) -> Document | None:
        self._check_known()
        value = self._documents.get(DocumentKey(kind.name, virtual_cluster, group))
        return None if value is None else decode(kind, value)

    def groups(self, kind: Kind, virtual_cluster: str) -> list[str]:
        self._check_known()
        return [key.group for key in self._documents if key[:2] == (kind.name, virtual_cluster)]

    # Writing

    async def put(self, kind: Kind, virtual_cluster: str, group: str, document: Document | None) -> Document | None:
        self.get(kind, virtual_cluster, group)  # nothing is written over what is not understood
        key = DocumentKey(kind.name, virtual_cluster, group)
        value = None if document is None else encode(kind, document)
        with self._writing(key) as write:
            offset = await self._written(key, value)
            before = await self._read_back(write, offset)
        return None if before is None else decode(kind, before)

    @contextmanager
    def _writing(self, key: DocumentKey) -> Iterator[_Write]:
        write = _Write()
        writes = self._writes.setdefault(key, set())
        writes.add(write)
        try:
            yield write
        finally:
            writes.discard(write)
            if not writes:
                self._writes.pop(key, None)

    async def _written(self, key: DocumentKey, value: bytes | None) -> int:
        ended: asyncio.Future[int] = self._loop.create_future()

        def end(error: KafkaError | None, offset: int) -> None:
            if ended.done():
                return
            if error is None:
                ended.set_result(offset)
            else:
                ended.set_exception(_problem_of(error, value))

        def tell_end(error: KafkaError | None, offset: int) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(end, error, offset)

        try:
            self._topic.write(key.encode(), value, tell_end)
        except BufferError:
            raise StoreAway("too many documents are on their way to the store") from None
        except KafkaException as problem:
            raise _problem_of(problem.args[0], value) from None
        return await ended

    async def _read_back(self, write: _Write, offset: int) -> bytes | None:
        try:
            async with asyncio.timeout(READ_BACK_TIMEOUT):
                while offset not in write.before:
                    write.changed.clear()
                    await write.changed.wait()
        except TimeoutError:
            raise StoreAway("what was written to the store has not been read back in time") from None
        return write.before[offset]

    # What the topic says

    def _check_known(self) -> None:
        if not self._is_known:
            raise StoreAway(self.problem)

    def _take(self, event: StoreEvent) -> None:
        match event:
            case Began():
                self._reading = {}
            case Stored(key=key, value=value, offset=offset):
                self._stored(DocumentKey.decode(key), value, offset)
            case ReadTo():
                self._read_whole()
            case Failed(reason=reason):
                self._set_problem(reason)

    def _stored(self, key: DocumentKey | None, value: bytes | None, offset: int) -> None:
        if key is None:
            return
        documents = self._documents if self._reading is None else self._reading
        for write in self._writes.get(key, ()):
            write.before[offset] = documents.get(key)
            write.changed.set()
        if value is None:
            documents.pop(key, None)
        else:
            documents[key] = value

    def _read_whole(self) -> None:
        if self._reading is not None:
            self._documents, self._reading = self._reading, None
        self._is_known = True
        self._set_problem("")

    def _set_problem(self, reason: str) -> None:
        is_new, self.problem = self.problem != reason, reason
        if is_new:
            self._tell(reason)


def _problem_of(error: KafkaError, value: bytes | None) -> StoreAway | DocumentTooLarge:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return DocumentTooLarge(f"a document of {len(value or b'')} bytes, which the topic of the store does not take")
    return StoreAway(f"the store does not take a document: {error.str()}")

"""The store: documents of groups in a compacted topic, which all processes of the same configuration share.

All of it is read at the start, then the later writes of other processes as they come; so a lookup takes no time. A
document is written with the acknowledgement of all in-sync replicas and then read back, before its writer continues. Of
two concurrent writes the later one in the topic wins, and each writer learns the document directly before its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from mesh.tasks import OwnedTask, TaskName
from mesh.tasks import report as report_failure
from mesh.upstream.events import EventChannel
from mesh.upstream.store.documents import (
    Document,
    DocumentKey,
    DocumentKind,
    DocumentTooLarge,
    StoreUnavailable,
    decode,
    encode,
)
from mesh.upstream.store.topic import Began, ReadFailed, ReadTo, Stored, StoreEvent, StorePlace, StoreTopic

READ_BACK_TIMEOUT: Final = 5.0
"""Seconds in which a written document must be read back."""


class Store(Protocol):
    """Documents by kind, virtual cluster and group. Every method raises StoreError."""

    def get(self, kind: DocumentKind, virtual_cluster: str, group: str) -> Document | None:
        """Returns the document of a group; None if there is none."""

    def groups(self, kind: DocumentKind, virtual_cluster: str) -> list[str]:
        """Returns the groups that have a document of this kind."""

    async def put(
        self, kind: DocumentKind, virtual_cluster: str, group: str, document: Document | None
    ) -> Document | None:
        """Writes a document. When all in-sync replicas have it, returns the document that it replaced. document: None
        deletes it."""


class _Write:
    """A document being written. Compared by identity."""

    __slots__ = ("before", "changed")

    def __init__(self) -> None:
        self.before: dict[int, bytes | None] = {}
        """The previous document for each record with this key that was read meanwhile, by offset."""
        self.changed = asyncio.Event()


class TopicStore:
    """A store in a topic. Implements `Store`.

    report: called on the event loop, once with the reason why the topic cannot be read, and with "" when it can be
        again.
    """

    def __init__(self, place: StorePlace, report: Callable[[str], None]) -> None:
        """Raises KafkaException for properties that librdkafka refuses."""
        self._loop = asyncio.get_running_loop()
        self._report = report
        self._documents: dict[DocumentKey, bytes] = {}
        self._reading: dict[DocumentKey, bytes] | None = None
        """Documents read so far while the topic is read from its beginning; None when all of it has been read."""
        self._is_known = False
        """True if the whole topic has been read at least once."""
        self._writes: dict[DocumentKey, set[_Write]] = {}
        self.problem = "the store has not been read yet"
        """The reason why the topic cannot be read now; "" if it can be."""
        self._channel: EventChannel[StoreEvent] = EventChannel(
            self._loop, self._take, partial(report_failure, OwnedTask(TaskName.STORE, cluster=place.cluster))
        )
        self._topic = StoreTopic(place, self._channel)

    def change_login(self, username: str, password: str) -> None:
        """Uses this user name and password for SASL from the next connection on."""
        self._topic.change_login(username, password)

    async def close(self) -> None:
        self._channel.close()
        self._topic.stop()
        await asyncio.to_thread(self._topic.join)

    # Reading

    def get(self, kind: DocumentKind, virtual_cluster: str, group: str) -> Document | None:
        self._require_known()
        value = self._documents.get(DocumentKey(kind.name, virtual_cluster, group))
        return None if value is None else decode(kind, value)

    def groups(self, kind: DocumentKind, virtual_cluster: str) -> list[str]:
        self._require_known()
        return [key.group for key in self._documents if key[:2] == (kind.name, virtual_cluster)]

    # Writing

    async def put(
        self, kind: DocumentKind, virtual_cluster: str, group: str, document: Document | None
    ) -> Document | None:
        # Raises for a stored document that cannot be decoded, so that it is not overwritten.
        self.get(kind, virtual_cluster, group)
        key = DocumentKey(kind.name, virtual_cluster, group)
        value = None if document is None else encode(kind, document)
        with self._writing(key) as write:
            offset = await self._write_record(key, value)
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

    async def _write_record(self, key: DocumentKey, value: bytes | None) -> int:
        ended: asyncio.Future[int] = self._loop.create_future()

        def end(error: KafkaError | None, offset: int) -> None:
            if ended.done():
                return
            if error is None:
                ended.set_result(offset)
            else:
                ended.set_exception(_problem_of(error, value))

        def report_end(error: KafkaError | None, offset: int) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(end, error, offset)

        try:
            self._topic.write(key.encode(), value, report_end)
        except BufferError:
            raise StoreUnavailable("too many documents are on their way to the store") from None
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
            raise StoreUnavailable("a document written to the store has not been read back in time") from None
        return write.before[offset]

    # Documents of the topic

    def _require_known(self) -> None:
        if not self._is_known:
            raise StoreUnavailable(self.problem)

    def _take(self, event: StoreEvent) -> None:
        match event:
            case Began():
                self._reading = {}
            case Stored(key=key, value=value, offset=offset):
                self._stored(DocumentKey.decode(key), value, offset)
            case ReadTo():
                self._finish_reading()
            case ReadFailed(reason=reason):
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

    def _finish_reading(self) -> None:
        if self._reading is not None:
            self._documents, self._reading = self._reading, None
        self._is_known = True
        self._set_problem("")

    def _set_problem(self, reason: str) -> None:
        is_new, self.problem = self.problem != reason, reason
        if is_new:
            self._report(reason)


def _problem_of(error: KafkaError, value: bytes | None) -> StoreUnavailable | DocumentTooLarge:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return DocumentTooLarge(f"a document of {len(value or b'')} bytes, which the topic of the store does not take")
    return StoreUnavailable(f"the store does not take a document: {error.str()}")

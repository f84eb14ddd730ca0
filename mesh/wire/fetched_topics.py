"""Checks the topics in a Fetch or ShareFetch answer while it passes through in chunks.

A broker answers what it has read in a request. If it read anything that the mesh did not, its answer has a topic that
was not asked for. So the mesh looks at the topics of an answer where it has judged those of the request. Records are
neither copied nor read.

The layouts are those of FetchResponse.json and ShareFetchResponse.json of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from struct import Struct
from typing import Final, TypeAlias
from uuid import UUID

from mesh.wire.answer_walker import TOPIC_ID, VERSIONS, AnswerWalker
from mesh.wire.apis import ApiKey
from mesh.wire.chunk_walker import Walk, WalkToNumber
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT16, INT32
from mesh.wire.text import text_of

IsExpected: TypeAlias = Callable[[str | UUID], bool]
"""Returns True if an answer may have a topic. Fetch before version 13 names it; later ones and ShareFetch have its
id."""

_CHECKED: Final = {ApiKey.FETCH: range(4, 19), ApiKey.SHARE_FETCH: VERSIONS[ApiKey.SHARE_FETCH]}
_FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_SESSION: Final = 7
_FIRST_WITH_PREFERRED_REPLICA: Final = 11
_FIRST_FLEXIBLE: Final = 12
_FIRST_WITH_TOPIC_IDS: Final = 13
_THROTTLE_TIME: Final = 4
_ERROR_AND_SESSION: Final = 6
_PARTITION_START: Final = 22
"""partition_index, error_code, high_watermark, last_stable_offset; the log start offset follows."""
_LOG_START: Final = 8
_ABORTED: Final = 16
_PREFERRED_REPLICA: Final = 4
_LONGEST_NAME: Final = (1 << 15) - 1


class FetchedTopics:
    """The check of one answer."""

    __slots__ = ("_api_key", "_is_expected", "_version", "_walker")

    def __init__(self, api_key: ApiKey, version: int, is_expected: IsExpected) -> None:
        self._api_key: Final = api_key
        self._version: Final = version
        self._is_expected: Final = is_expected
        self._walker: _TopicWalker | None = None

    def feed(self, buffer: Buffer) -> None:
        """Takes the next bytes of the answer, which begins with its length, all in the first buffer. Raises
        ProtocolError if a topic is not expected, or the bytes are no answer of this API."""
        chunk = memoryview(buffer)
        if self._walker is None:
            (length,) = INT32.unpack_from(chunk)
            self._walker = _TopicWalker(self._api_key, self._version, length, self._is_expected)
            chunk = chunk[INT32.size :]
        self._walker.feed(chunk)


class _TopicWalker(AnswerWalker):
    """Walks over an answer, and changes nothing."""

    __slots__ = ("_is_expected",)

    def __init__(self, api_key: ApiKey, version: int, length: int, is_expected: IsExpected) -> None:
        super().__init__(api_key, version, length)
        self._is_expected: Final = is_expected

    @classmethod
    def _walked(cls, leaf: int) -> Mapping[ApiKey, range]:
        return _CHECKED

    def _fetch(self) -> Walk:
        return super()._fetch() if self._version >= _FIRST_FLEXIBLE else self._old_fetch()

    def _fetch_end(self) -> Walk:
        return self._tagged_fields()

    def _topic(self) -> Walk:
        if self._version >= _FIRST_WITH_TOPIC_IDS:
            yield from self._topic_id()
        else:
            yield from self._name((yield from self._count(1)))

    def _topic_id(self) -> Walk:
        check_topic(UUID(bytes=(yield from self._bytes(TOPIC_ID))), self._is_expected)

    def _node_endpoints(self) -> Walk:
        return self._endpoints()

    def _old_fetch(self) -> Walk:
        """Walks over an answer without compact lengths and tagged fields."""
        version = self._version
        start = _PARTITION_START + (_LOG_START if version >= _FIRST_WITH_LOG_START else 0)
        yield from self._pass(INT32.size + _THROTTLE_TIME)
        yield from self._pass(_ERROR_AND_SESSION if version >= _FIRST_WITH_SESSION else 0)
        for _ in range((yield from self._number(INT32))):
            yield from self._name((yield from self._number(INT16)))
            for _ in range((yield from self._number(INT32))):
                yield from self._pass(start)
                yield from self._pass(_ABORTED * (yield from self._number(INT32)))
                yield from self._pass(_PREFERRED_REPLICA if version >= _FIRST_WITH_PREFERRED_REPLICA else 0)
                yield from self._pass((yield from self._number(INT32)))
        self._finish()

    def _number(self, layout: Struct) -> WalkToNumber:
        """Reads a length or a count; null counts as 0."""
        number: int = layout.unpack((yield from self._bytes(layout.size)))[0]
        return max(number, 0)

    def _name(self, length: int) -> Walk:
        if length > _LONGEST_NAME:
            raise ProtocolError("invalid_length", f"a topic name of {length} bytes")
        check_topic(text_of((yield from self._bytes(length))), self._is_expected)

    def _bytes(self, size: int) -> Generator[None, None, bytes]:
        taken = bytearray()
        while (left := self._affordable(size - len(taken), 1)) > 0:
            taken += self._chunk[self._position : self._position + left]
            self._position = min(self._position + left, len(self._chunk))
            if len(taken) < size:
                yield
        return bytes(taken)


def check_topic(topic: str | UUID, is_expected: IsExpected) -> None:
    """Raises ProtocolError if an answer may not have a topic."""
    if not is_expected(topic):
        raise ProtocolError("unexpected_response", f"a Fetch answer with {topic}, which was not asked for")

"""Changes Fetch and ShareFetch answers while they pass through in chunks: hides the addresses of brokers, and turns
node ids into those of a union.

A broker that no longer leads a partition names the new leader (KIP-951): PartitionData has a node id, and
NodeEndpoints, at the end of the answer, has the address of that node. Clients of a mesh cannot use that address. But
when the end arrives, the frame's length has been sent, so no change may alter the size. So one tagged field, with a tag
that no version knows, replaces all bytes that remain. A client skips it (KIP-482), sees a leader without an address,
and asks for Metadata.

* Fetch v16 to v18: NodeEndpoints is tag 0 of the answer, which has no other tags. Only its tag changes, to 127. If a
  future broker sends further tags, they become contents of the same field: after tag 127 they would not be in ascending
  order, as KIP-482 demands. Without NodeEndpoints all tags stay.
* ShareFetch v1 and v2: NodeEndpoints is an array in front of the answer's tagged fields. An empty array, one tagged
  field and its size overwrite its first bytes; the rest of the array and the answer's tags become the contents of that
  field.

A union puts the leaf of a node into the upper bits of its id (`mesh.routing.node_ids`), which are zero in the id of its
cluster. So the walker sets bits in two bytes of the preferred replica and of the new leader, in place and in whichever
chunk each byte arrives. The id -1, no node, has all bits set already and stays.

The layouts are those of FetchResponse.json and ShareFetchResponse.json of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mesh.wire.apis import ApiKey
from mesh.wire.chunk_walker import ChunkWalker, Walk
from mesh.wire.messages import Buffer
from mesh.wire.reader import MAX_VARINT_BYTES, NO_TAG
from mesh.wire.writer import encode_unsigned_varint

VERSIONS: Final[Mapping[ApiKey, range]] = MappingProxyType(
    {ApiKey.FETCH: range(16, 19), ApiKey.SHARE_FETCH: range(1, 3)}
)
"""The versions of answers with records that contain addresses. Fetch before v16 has none."""
VERSIONS_WITH_NODES: Final[Mapping[ApiKey, range]] = MappingProxyType({ApiKey.FETCH: range(12, 19)})
"""The versions of answers in which node ids can be changed. Fetch before v11 has none, and v11 has no compact
lengths."""
NODE_BITS: Final = 20
"""The bits of a node id that a union leaves to its clusters."""

_CORRELATION_ID: Final = 4
_FETCH_START: Final = 10
"""throttle_time_ms, error_code, session_id."""
_FETCH_PARTITION_START: Final = 30
"""partition_index, error_code, high_watermark, last_stable_offset, log_start_offset; aborted transactions follow."""
_PREFERRED_REPLICA: Final = 4
_ABORTED: Final = 16
"""producer_id, first_offset; tagged fields follow."""
_FETCH_PARTITION: Final = _FETCH_PARTITION_START + 1 + _PREFERRED_REPLICA + 2
"""The fewest bytes of a partition."""
_NODE_ENDPOINTS_TAG: Final = 0
_FIRST_WITH_ENDPOINTS: Final = 16
_FIRST_WITH_TOPIC_IDS: Final = 13
_DIVERGING_EPOCH_TAG: Final = 0
_CURRENT_LEADER_TAG: Final = 1
_SNAPSHOT_TAG: Final = 2
_EPOCH_AND_OFFSET: Final = 12
"""The fields of a diverging epoch and of a snapshot; tagged fields follow."""

_SHARE_START: Final = 6
"""throttle_time_ms, error_code; error_message follows."""
_LOCK_TIMEOUT: Final = 4
_SHARE_PARTITION_START: Final = 6
"""partition_index, error_code; error_message follows."""
_ERROR_CODE: Final = 2
LEADER: Final = 8
"""leader_id, leader_epoch; tagged fields follow."""
_LEADER_EPOCH: Final = 4
_ACQUIRED: Final = 18
"""first_offset, last_offset, delivery_count; tagged fields follow."""
_SHARE_PARTITION: Final = _SHARE_PARTITION_START + 1 + _ERROR_CODE + 1 + LEADER + 1 + 3
_NODE_ID: Final = 4
_PORT: Final = 4
_NODE_ENDPOINT: Final = _NODE_ID + 1 + _PORT + 2

TOPIC_ID: Final = 16
"""The bytes of a topic id."""
_TOPIC: Final = 3
"""The fewest bytes of a topic: an empty name, no partitions and no tagged fields."""

_EMPTY_ARRAY: Final = b"\x01"
_ONE_FIELD: Final = b"\x01"
_UNKNOWN_TAGS: Final = (b"\x7f", b"\x80\x01")
"""Tag 127, and tag 128 for the few sizes that tag 127 cannot produce."""

_NOWHERE: Final = -1


class AnswerWalker(ChunkWalker):
    """Walks over a Fetch or ShareFetch answer that arrives in chunks, and hides the addresses at its end.

    Records are neither copied nor read. Each length and count is checked against the rest of the frame. A chunk is kept
    only during its call of `feed`, except for a few bytes that are held back.

    is_done: whether the whole answer has been fed, and was complete.
    """

    __slots__ = ("_bits", "_held", "_held_from", "_patch", "_version", "_walk")

    def __init__(self, api_key: ApiKey, version: int, length: int, leaf: int = 0) -> None:
        """length: the bytes of the frame, which begins with the correlation id. leaf: the number that node ids get
        above `NODE_BITS`. The version must be one of `VERSIONS`; with a leaf, one of `VERSIONS_WITH_NODES`."""
        if version not in self._walked(leaf).get(api_key, ()):
            raise ValueError(f"answers of {api_key.name} v{version} are not walked")
        super().__init__(length)
        self._version: Final = version
        self._bits: Final = (leaf << NODE_BITS).to_bytes(_NODE_ID, "big")[:2] if leaf else b""
        self._held_from = _NOWHERE
        """The position in the chunk at which bytes begin that may have to change."""
        self._held: Final = bytearray()
        """Such bytes from earlier chunks."""
        self._patch: bytes | None = None
        """The replacement for their beginning; None until it is known."""
        self._walk: Final = self._fetch() if api_key is ApiKey.FETCH else self._share_fetch()

    @classmethod
    def _walked(cls, leaf: int) -> Mapping[ApiKey, range]:
        return VERSIONS_WITH_NODES if leaf else VERSIONS

    def feed(self, chunk: memoryview) -> Sequence[Buffer]:
        """Takes a chunk of the frame, and returns the bytes to send now: slices of the chunk, and bytes held back
        before.

        chunk: the next bytes of this frame only. It must be writable, since addresses are overwritten in place. Raises
        ProtocolError if the bytes are not an answer of this API and version; the walker cannot be used any more then.
        """
        size = len(chunk)
        self._expect(size)
        if size < self._skip and self._held_from == _NOWHERE:
            self._skip -= size
            return (chunk,)
        self._walk_over(chunk, self._walk)
        return (chunk,) if self._held_from == _NOWHERE else self._release(chunk)

    def _release(self, chunk: memoryview) -> Sequence[Buffer]:
        """Returns the held bytes, with the patch if all bytes to patch are there; otherwise holds them back."""
        start, held, patch = self._held_from, self._held, self._patch
        if patch is None or len(held) + len(chunk) - start < len(patch):
            held += chunk[start:]
            self._held_from = 0
            return (chunk[:start],) if start else ()
        self._held_from = _NOWHERE
        if not held:
            if patch:
                chunk[start : start + len(patch)] = patch
            return (chunk,)
        more = max(len(patch) - len(held), 0)
        held += chunk[:more]
        held[: len(patch)] = patch
        return (held, chunk[more:]) if more < len(chunk) else (held,)

    def _fetch(self) -> Walk:
        yield from self._pass(_CORRELATION_ID)
        yield from self._tagged_fields()
        yield from self._pass(_FETCH_START)
        for _ in range((yield from self._count(_TOPIC))):
            yield from self._topic()
            left = yield from self._count(_FETCH_PARTITION)
            while left:
                left -= self._pass_usual_partitions(left)
                if self._skip:
                    yield
                    yield from self._partition_tags()
                elif left:
                    left -= 1
                    yield from self._fetch_partition()
            yield from self._tagged_fields()
        if self._version >= _FIRST_WITH_ENDPOINTS:
            yield from self._fetch_end()
        else:
            yield from self._tagged_fields()
        self._finish()

    def _topic(self) -> Walk:
        return self._topic_id() if self._version >= _FIRST_WITH_TOPIC_IDS else self._byte_string()

    def _topic_id(self) -> Walk:
        return self._pass(TOPIC_ID)

    def _pass_usual_partitions(self, most: int) -> int:
        """Passes partitions in the chunk that have no aborted transactions and no tagged fields, and stops at any
        other. Returns their number. The records of the last one may continue after the chunk; its tagged fields are
        read later then."""
        chunk, position, size, bits = self._chunk, self._position, len(self._chunk), self._bits
        passed = 0
        try:
            while passed < most:
                at = position + _FETCH_PARTITION_START
                if chunk[at] > 1:
                    break
                at += 1 + _PREFERRED_REPLICA
                length = chunk[at]
                if bits:
                    chunk[at - 4] |= bits[0]
                    chunk[at - 3] |= bits[1]
                if length > 0x7F:  # a varint of two bytes
                    at += 1
                    length += (chunk[at] - 1) << 7
                    if length > 0x3FFF:  # of three bytes; four are rare
                        at += 1
                        length += (chunk[at] - 1) << 14
                        if length > 0x1FFFFF:
                            break
                at += length or 1
                if at > size:
                    self._position = size
                    self._skip = self._affordable(at - size, 1)
                    return passed + 1
                if chunk[at]:
                    break
                position = at + 1
                passed += 1
        except IndexError:
            pass  # the chunk ends inside this partition's numbers
        self._position = position
        return passed

    def _fetch_partition(self) -> Walk:
        yield from self._pass(_FETCH_PARTITION_START)
        yield from self._array(_ABORTED)
        yield from self._node()
        yield from self._byte_string()
        yield from self._partition_tags()

    def _partition_tags(self) -> Walk:
        if self._position < len(self._chunk) and not self._chunk[self._position]:
            self._position += 1
            return
        known = {
            _DIVERGING_EPOCH_TAG: self._epoch_and_offset,
            _CURRENT_LEADER_TAG: self._leader,
            _SNAPSHOT_TAG: self._epoch_and_offset,
        }
        yield from self._known_tagged_fields(known)

    def _epoch_and_offset(self) -> Walk:
        yield from self._pass(_EPOCH_AND_OFFSET)
        yield from self._tagged_fields()

    def _leader(self) -> Walk:
        yield from self._node()
        yield from self._pass(_LEADER_EPOCH)
        yield from self._tagged_fields()

    def _node(self) -> Walk:
        """Changes the id of a node, whose bytes may be in different chunks."""
        for bits in self._bits:
            while self._position >= len(self._chunk):
                self._affordable(1, 1)
                yield
            self._chunk[self._position] |= bits
            self._position += 1
        yield from self._pass(_NODE_ID - len(self._bits))

    def _fetch_end(self) -> Walk:
        """Walks over the tagged fields of the answer. NodeEndpoints can only be the first one."""
        size = self._left()
        self._held_from = self._position
        count = yield from self._field_count()
        previous = NO_TAG
        for _ in range(count):
            tag = yield from self._tag(previous)
            is_endpoints = tag == _NODE_ENDPOINTS_TAG
            if previous == NO_TAG:
                self._patch = _hidden(_ONE_FIELD, size) if is_endpoints else b""
            previous = tag
            yield from self._tagged_field(tag, self._endpoints if is_endpoints else None)
        if not count:
            self._patch = b""

    def _share_fetch(self) -> Walk:
        yield from self._pass(_CORRELATION_ID)
        yield from self._tagged_fields()
        yield from self._pass(_SHARE_START)
        yield from self._byte_string()
        yield from self._pass(_LOCK_TIMEOUT)
        for _ in range((yield from self._count(_TOPIC))):
            yield from self._topic_id()
            for _ in range((yield from self._count(_SHARE_PARTITION))):
                yield from self._share_partition()
            yield from self._tagged_fields()
        yield from self._node_endpoints()
        yield from self._tagged_fields()
        self._finish()

    def _share_partition(self) -> Walk:
        if not self._pass_usual_share_start():
            yield from self._pass(_SHARE_PARTITION_START)
            yield from self._byte_string()
            yield from self._pass(_ERROR_CODE)
            yield from self._byte_string()
            yield from self._pass(LEADER)
            yield from self._tagged_fields()
        yield from self._byte_string()
        yield from self._array(_ACQUIRED)
        yield from self._tagged_fields()

    def _pass_usual_share_start(self) -> bool:
        """Passes the fields of a partition before its records, if they are all in the chunk, and have no error messages
        and no tagged fields. Otherwise passes nothing, and returns False."""
        chunk, first_message = self._chunk, self._position + _SHARE_PARTITION_START
        second_message = first_message + 1 + _ERROR_CODE
        tagged_fields = second_message + 1 + LEADER
        if tagged_fields >= len(chunk) or chunk[first_message] > 1 or chunk[second_message] > 1 or chunk[tagged_fields]:
            return False
        self._position = tagged_fields + 1
        return True

    def _node_endpoints(self) -> Walk:
        size = self._left()
        self._held_from = self._position
        count = yield from self._count(_NODE_ENDPOINT)
        self._patch = _hidden(_EMPTY_ARRAY + _ONE_FIELD, size) if count else b""
        for _ in range(count):
            yield from self._endpoint()

    def _endpoints(self) -> Walk:
        for _ in range((yield from self._count(_NODE_ENDPOINT))):
            yield from self._endpoint()

    def _endpoint(self) -> Walk:
        yield from self._pass(_NODE_ID)
        yield from self._byte_string()
        yield from self._pass(_PORT)
        yield from self._byte_string()
        yield from self._tagged_fields()


def _hidden(start: bytes, size: int) -> bytes:
    """Returns the bytes that overwrite the beginning of `size` bytes, so that these become `start` and one field with
    an unknown tag."""
    for tag in _UNKNOWN_TAGS:
        for width in range(1, MAX_VARINT_BYTES + 1):
            content = size - len(start) - len(tag) - width
            if content >= 0 and len(encoded := encode_unsigned_varint(content)) == width:
                return start + tag + encoded
    raise AssertionError(f"{size} bytes are too few for a tagged field")

"""Translates messages between one client of a union and the leaf of its connection, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

from mesh.records.producer_batches import may_have_producer_ids, with_producer_ids
from mesh.routing.concatenated import PartsAtLeaf
from mesh.routing.entities import Elsewhere, FromLeaf, FromLeafWithParts, Hidden, ToLeaf, ToLeafWithParts, UnionNames
from mesh.routing.kit import streams
from mesh.routing.kit.hidden import without_hidden
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NodeIds
from mesh.wire.addresses import NodeAddresses, carries_addresses
from mesh.wire.answer_walker import VERSIONS, VERSIONS_WITH_NODES, AnswerWalker
from mesh.wire.apis import ApiKey, has_tagged_response_header
from mesh.wire.entities import Direction, program, program_with_partitions
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.one_partition import OnePartition
from mesh.wire.part_walker import VERSIONS_WITH_PARTS, PartWalker
from mesh.wire.passing import RequestHead
from mesh.wire.produce_batches import ProduceParts, parts_of, without_header_tags
from mesh.wire.reader import INT32
from mesh.wire.routed import PassedRequest
from mesh.wire.spans import Spans
from mesh.wire.trees import read_tree

_LENGTH: Final = INT32.size
_FIRST_WITH_NODES: Final = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 11}
_LAST_WITH_NAMES: Final = 12
"""The last version of Produce and Fetch with topic names; later ones have topic ids (KIP-516)."""
_OFFSETS: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH})
_FIRST_WITH_IDS: Final = 10
"""The first version of these APIs with topic ids (KIP-848)."""


_ASKS: Final[Mapping[EntityKind, Callable[[FromLeaf, Any], object]]] = MappingProxyType(
    {
        EntityKind.TOPIC: lambda leaf, name: leaf.topic(name),
        EntityKind.TOPIC_ID: lambda leaf, topic_id: leaf.topic_id(topic_id),
        EntityKind.PARTITION: lambda leaf, partition: leaf.partition(partition),
        EntityKind.GROUP: lambda leaf, group_id: leaf.group(group_id),
        EntityKind.TRANSACTIONAL_ID: lambda leaf, transactional_id: leaf.transactional_id(transactional_id),
    }
)
"""Translations of an entity in an answer, by its kind. They raise `Hidden` for an entity that clients do not see."""


class ProducerIds(Protocol):
    """Translates producer ids between clients, which have those of a home, and another leaf."""

    def tagged(self, producer_id: int) -> int:
        """Returns the producer id for the leaf. Raises `HomeUnknown`."""

    def untagged(self, producer_id: int) -> int:
        """Returns the producer id for clients; an id without our tag stays the same."""


class HomeUnknown(Exception):
    """Raised as long as it is unknown which cluster allocates producer ids."""


class LeafTranslation:
    """The translation of the messages of one connection. Implements `mesh.wire.routed.Translation`.

    answered_here: APIs that the mesh answers itself. producer_ids: None if the leaf allocates them itself. parts: the
    leaf's parts of concatenated topics; most leaves have none.
    """

    def __init__(
        self,
        leaf: LeafNumber,
        ids: NodeIds,
        names: UnionNames,
        addresses: NodeAddresses,
        answered_here: Collection[ApiKey],
        producer_ids: ProducerIds | None,
        parts: PartsAtLeaf | None = None,
    ) -> None:
        self._leaf: Final = leaf
        self._names: Final = names
        self._renames: Final = names.renames(leaf)
        untagged: Callable[[int], int] | None = producer_ids.untagged if producer_ids is not None else None
        self._parts: Final = parts or None
        self._to_leaf: ToLeaf
        self._from_leaf: FromLeaf
        if self._parts is None:
            self._to_leaf = ToLeaf(leaf, ids, names)
            self._from_leaf = FromLeaf(leaf, ids, names, addresses, untagged)
        else:
            self._to_leaf = ToLeafWithParts(leaf, ids, names, self._parts)
            self._from_leaf = FromLeafWithParts(leaf, ids, names, addresses, untagged, self._parts)
        self._program: Final = program if self._parts is None else program_with_partitions
        self._answered_here: Final = answered_here
        self._producer_ids: Final = producer_ids
        self._passing: tuple[str | None, str | None] | None = None
        """The transactional id and topic of the last Produce that passed unchanged."""

    def request(self, head: RequestHead, frame: memoryview) -> PassedRequest | None:
        api_key = ApiKey(head.api_key)
        if api_key in self._answered_here:
            return None
        if api_key is ApiKey.FETCH and head.api_version > _LAST_WITH_NAMES and self._parts is None:
            # The only names in such a request are topic ids, and the cluster refuses ids that are not its own.
            return PassedRequest((frame,), is_answered=True)
        frame, body = without_header_tags(api_key, head.api_version, frame)
        if api_key is ApiKey.PRODUCE:
            return self._produce(head.api_version, frame, body)
        if api_key is ApiKey.JOIN_GROUP and self._is_refused(head.api_version, frame[body:]):
            return None
        if api_key in _OFFSETS and _may_be_of_several(api_key, head.api_version, frame[body:]):
            return None
        try:
            pieces = self._program(api_key, head.api_version, Direction.REQUEST).translate(frame, body, self._to_leaf)
        except Elsewhere:
            return None
        return PassedRequest(_with_length(pieces), is_answered=True)

    def _produce(self, version: int, frame: memoryview, body: int) -> PassedRequest | None:
        parts = parts_of(version, frame, body)
        pieces: Sequence[Buffer] = (frame,)
        try:
            self._tag(parts, frame)
            if self._renames or self._parts is not None or not parts.is_exact:
                pieces = _with_length(
                    self._program(ApiKey.PRODUCE, version, Direction.REQUEST).translate(frame, body, self._to_leaf)
                )
            else:
                self._check_own(parts)
        except (Elsewhere, HomeUnknown):
            if not parts.acks:
                raise ProtocolError("produce", "it is for another cluster, and there is no answer to say so") from None
            return None
        return PassedRequest(pieces, is_answered=parts.acks != 0)

    def _check_own(self, parts: ProduceParts) -> None:
        """Raises `Elsewhere` if the transaction or a topic of a Produce belongs to another leaf."""
        if parts.transactional_id is not None:
            self._to_leaf.transactional_id(parts.transactional_id)
        for topic in parts.topics:
            self._to_leaf.topic(topic)

    def _is_refused(self, version: int, body: memoryview) -> bool:
        """Returns True if a JoinGroup of Kafka Streams has a topic at another leaf than the group's home."""
        if not streams.may_be_of_streams(body):
            return False
        join = read_tree(ApiKey.JOIN_GROUP, version, Direction.REQUEST, body)
        return streams.topic_elsewhere(join, self._names) is not None

    def passes_unchanged(self, produced: OnePartition) -> bool:
        asked = produced.transactional_id, produced.topic
        if asked == self._passing:
            return True  # most large requests repeat the last names, which do not change during a translation's life
        if self._renames or self._parts is not None or produced.topic is None:
            return False
        try:
            if produced.transactional_id is not None:
                self._to_leaf.transactional_id(produced.transactional_id)
            self._to_leaf.topic(produced.topic)
        except Elsewhere:
            return False
        self._passing = asked
        return True

    def may_change_records(self, beginning: memoryview, size: int) -> bool:
        return self._producer_ids is not None and may_have_producer_ids(beginning, size)

    def walker(self, api_key: ApiKey, version: int, size: int) -> AnswerWalker | None:
        if self._parts is not None:
            if version not in VERSIONS_WITH_PARTS.get(api_key, ()):
                return None
            return PartWalker(api_key, version, size, self._leaf, self._parts.shifts())
        if self._renames and api_key is ApiKey.FETCH and version <= _LAST_WITH_NAMES:
            return None
        walked = VERSIONS_WITH_NODES if self._leaf else VERSIONS
        return AnswerWalker(api_key, version, size, self._leaf) if version in walked.get(api_key, ()) else None

    def is_changed(self, api_key: ApiKey, version: int, *, is_plain: bool) -> bool:
        if self._parts is not None:
            return True
        if is_plain:
            return self._renames and version <= _LAST_WITH_NAMES
        if (first := _FIRST_WITH_NODES.get(api_key)) is None:
            return True
        if carries_addresses(api_key, version) or (self._renames and version <= _LAST_WITH_NAMES):
            return True
        return self._leaf != 0 and version >= first

    def answer(self, api_key: ApiKey, version: int, answer: memoryview) -> Sequence[Buffer]:
        header = Spans(answer, INT32.size)
        if has_tagged_response_header(api_key, version):
            header.skip_tagged_fields()
        start = header.position
        try:
            told = self._program(api_key, version, Direction.RESPONSE).translate(answer, start, self._from_leaf)
        except Hidden:
            body = without_hidden(api_key, version, answer[start:], self._is_shown)
            told = [answer[:start], *self._translated(api_key, version, memoryview(body))]
        return [INT32.pack(sum(map(len, told))), *told]

    def _translated(self, api_key: ApiKey, version: int, body: memoryview) -> list[Buffer]:
        try:
            return self._program(api_key, version, Direction.RESPONSE).translate(body, 0, self._from_leaf)
        except Hidden:
            raise ProtocolError("unexpected_response", f"{api_key.name} of something that is hidden") from None

    def _is_shown(self, kind: EntityKind, value: Any) -> bool:
        """Returns True if clients see an entity. Called in the order of the answer: a partition belongs to the topic
        before it."""
        try:
            _ASKS[kind](self._from_leaf, value)
        except Hidden:
            return False
        return True

    def tag(self, version: int, frame: memoryview, body: int) -> None:
        """Replaces producer ids in the batches of a Produce by those that the leaf knows. Raises `HomeUnknown`."""
        self._tag(parts_of(version, frame, body), frame)

    def _tag(self, parts: ProduceParts, frame: memoryview) -> None:
        if self._producer_ids is not None and parts.transactional_id is None:
            for start, end in parts.records:
                # Brokers refuse a Produce with several batches of a partition. Reading millions would take seconds.
                with_producer_ids(frame[start:end], self._producer_ids.tagged, most_batches=1)


def _may_be_of_several(api_key: ApiKey, version: int, body: memoryview) -> bool:
    """Returns True if a request about offsets may concern several clusters: it asks for all offsets of a group, or may
    name topics by id."""
    if version >= _FIRST_WITH_IDS:
        return True
    if api_key is ApiKey.OFFSET_COMMIT:
        return False
    request = read_tree(ApiKey.OFFSET_FETCH, version, Direction.REQUEST, body)
    return any(each["topics"] is None for each in request.get("groups", [request]))


def _with_length(pieces: list[Buffer]) -> list[Buffer]:
    """Returns the frame with its new length in front, if the length has changed."""
    first = memoryview(pieces[0])
    length = sum(map(len, pieces)) - _LENGTH
    if INT32.unpack_from(first)[0] == length:
        return pieces
    return [INT32.pack(length), first[_LENGTH:], *pieces[1:]]

"""What passes between one client of a union and the leaf that its connection leads to, on its way there and back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from mesh.records.producer_batches import with_producer_ids
from mesh.routing.entities import Elsewhere, FromLeaf, Hidden, Names, ToLeaf
from mesh.routing.kit import streams
from mesh.routing.kit.hidden import without_hidden
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NodeIds
from mesh.wire.addresses import NodeAddresses, carries_addresses
from mesh.wire.answer_walker import VERSIONS, VERSIONS_WITH_NODES
from mesh.wire.apis import ApiKey, has_tagged_response_header
from mesh.wire.entities import Side, program
from mesh.wire.entities.kinds import Kind
from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.passing import RequestHead
from mesh.wire.produce_batches import ProduceParts, body_of, parts_of
from mesh.wire.reader import INT32
from mesh.wire.routed import PassedRequest
from mesh.wire.spans import Spans
from mesh.wire.trees import read_tree

_LENGTH: Final = INT32.size
_FIRST_WITH_NODES: Final = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 11}
_LAST_WITH_NAMES: Final = 12
"""Of Produce and Fetch; then they have topic ids (KIP-516)."""
_OFFSETS: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH})
_FIRST_WITH_IDS: Final = 10
"""Of these (KIP-848)."""


class ProducerIds(Protocol):
    """The producer ids of a home, as another leaf knows them."""

    def tagged(self, producer_id: int) -> int:
        """As the leaf is to know it. Raises `HomeUnknown`."""

    def untagged(self, producer_id: int) -> int:
        """As clients know it; the same for one that has no tag of ours."""


class HomeUnknown(Exception):
    """It is not known yet which cluster hands out producer ids."""


class LeafTranslation:
    """The translation of the messages of one connection. Implements `mesh.wire.routed.Translation`.

    answered_here: APIs of which no request passes. producer_ids: None where the leaf hands them out itself.
    """

    def __init__(
        self,
        leaf: LeafNumber,
        ids: NodeIds,
        names: Names,
        addresses: NodeAddresses,
        answered_here: Collection[ApiKey],
        producer_ids: ProducerIds | None,
    ) -> None:
        self._leaf: Final = leaf
        self._names: Final = names
        self._renames: Final = names.renames(leaf)
        self._to_leaf: Final = ToLeaf(leaf, ids, names)
        untagged: Callable[[int], int] | None = producer_ids.untagged if producer_ids is not None else None
        self._from_leaf: Final = FromLeaf(leaf, ids, names, addresses, untagged)
        self._answered_here: Final = answered_here
        self._producer_ids: Final = producer_ids

    def request(self, head: RequestHead, frame: memoryview) -> PassedRequest | None:
        api_key = ApiKey(head.api_key)
        if api_key in self._answered_here:
            return None
        if api_key is ApiKey.FETCH and head.api_version > _LAST_WITH_NAMES:
            # Of all that it names a client knows topic ids only: the cluster itself refuses those that are not its own.
            return PassedRequest((frame,), is_answered=True)
        body = body_of(api_key, head.api_version, frame)
        if api_key is ApiKey.PRODUCE:
            return self._produce(head.api_version, frame, body)
        if api_key is ApiKey.JOIN_GROUP and self._is_refused(head.api_version, frame[body:]):
            return None
        if api_key in _OFFSETS and _may_be_of_several(api_key, head.api_version, frame[body:]):
            return None
        try:
            pieces = program(api_key, head.api_version, Side.REQUEST).translate(frame, body, self._to_leaf)
        except Elsewhere:
            return None
        return PassedRequest(_with_length(pieces), is_answered=True)

    def _produce(self, version: int, frame: memoryview, body: int) -> PassedRequest | None:
        parts = parts_of(version, frame, body)
        pieces: Sequence[Buffer] = (frame,)
        try:
            self._tag(parts, frame)
            if self._renames:
                pieces = _with_length(
                    program(ApiKey.PRODUCE, version, Side.REQUEST).translate(frame, body, self._to_leaf)
                )
            else:
                self._check_own(parts)
        except (Elsewhere, HomeUnknown):
            if not parts.acks:
                raise ProtocolError("produce", "it is for another cluster, and there is no answer to say so") from None
            return None
        return PassedRequest(pieces, is_answered=parts.acks != 0)

    def _check_own(self, parts: ProduceParts) -> None:
        """Raises `Elsewhere`."""
        if parts.transactional_id is not None:
            self._to_leaf.transactional_id(parts.transactional_id)
        for topic in parts.topics:
            self._to_leaf.topic(topic)

    def _is_refused(self, version: int, body: memoryview) -> bool:
        """Whether a JoinGroup is one of Kafka Streams with a topic that is elsewhere."""
        if not streams.may_be_of_streams(body):
            return False
        join = read_tree(ApiKey.JOIN_GROUP, version, Side.REQUEST, body)
        return streams.topic_elsewhere(join, self._names) is not None

    def leaf_of_nodes(self, api_key: ApiKey, version: int) -> int | None:
        if self._renames and api_key is ApiKey.FETCH and version <= _LAST_WITH_NAMES:
            return None
        if self._leaf:
            return self._leaf if version in VERSIONS_WITH_NODES.get(api_key, ()) else None
        return 0 if version in VERSIONS.get(api_key, ()) else None

    def is_changed(self, api_key: ApiKey, version: int, *, is_plain: bool) -> bool:
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
            told = program(api_key, version, Side.RESPONSE).translate(answer, start, self._from_leaf)
        except Hidden:
            body = without_hidden(api_key, version, answer[start:], self._is_shown)
            told = [answer[:start], *self._translated(api_key, version, memoryview(body))]
        return [INT32.pack(sum(map(len, told))), *told]

    def _translated(self, api_key: ApiKey, version: int, body: memoryview) -> list[Buffer]:
        try:
            return program(api_key, version, Side.RESPONSE).translate(body, 0, self._from_leaf)
        except Hidden:
            raise ProtocolError("unexpected_response", f"{api_key.name} of something that is hidden") from None

    def _is_shown(self, kind: Kind, name: str) -> bool:
        match kind:
            case Kind.TOPIC:
                return self._names.shown(self._leaf, name) is not None
            case Kind.GROUP:
                return self._names.group_home(name) == self._leaf
            case _:
                return self._names.transaction_home(name) == self._leaf

    def tag(self, version: int, frame: memoryview, body: int) -> None:
        """Puts the producer ids that the leaf is to know into the batches of a Produce request. Raises
        `HomeUnknown`."""
        self._tag(parts_of(version, frame, body), frame)

    def _tag(self, parts: ProduceParts, frame: memoryview) -> None:
        if self._producer_ids is not None and parts.transactional_id is None:
            for start, end in parts.records:
                with_producer_ids(frame[start:end], self._producer_ids.tagged)


def _may_be_of_several(api_key: ApiKey, version: int, body: memoryview) -> bool:
    """Whether a request about offsets asks for all of a group, or names topics by their ids."""
    if version >= _FIRST_WITH_IDS:
        return True
    if api_key is ApiKey.OFFSET_COMMIT:
        return False
    request = read_tree(ApiKey.OFFSET_FETCH, version, Side.REQUEST, body)
    return any(each["topics"] is None for each in request.get("groups", [request]))


def _with_length(pieces: list[Buffer]) -> list[Buffer]:
    """The frame with its own length in front, where that has changed."""
    first = memoryview(pieces[0])
    length = sum(map(len, pieces)) - _LENGTH
    if INT32.unpack_from(first)[0] == length:
        return pieces
    return [INT32.pack(length), first[_LENGTH:], *pieces[1:]]

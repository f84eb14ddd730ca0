"""Steps of a program that read an entity, ask what stands in its place, and replace it where that is something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import UUID

from mesh.wire.entities.handler import Entities
from mesh.wire.entities.kinds import Kind
from mesh.wire.entities.steps import Step, Walk, null
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT16, INT32, INT64
from mesh.wire.spans import encoded_count, encoded_text

AskText: TypeAlias = Callable[[Entities, str], str]
AskBytes: TypeAlias = Callable[[Entities, memoryview], Buffer]

TEXTS: Final[Mapping[Kind, AskText]] = MappingProxyType(
    {
        Kind.CLUSTER_ID: lambda to, text: to.cluster_id(text),
        Kind.TOPIC: lambda to, text: to.topic(text),
        Kind.TOPIC_PATTERN: lambda to, text: to.topic_pattern(text),
        Kind.GROUP: lambda to, text: to.group(text),
        Kind.TRANSACTIONAL_ID: lambda to, text: to.transactional_id(text),
        Kind.TRANSACTIONAL_ID_PATTERN: lambda to, text: to.transactional_id_pattern(text),
        Kind.COORDINATOR_KEY: lambda to, text: to.coordinator_key(text),
        # FindCoordinator v0 finds groups; without its type, a resource's name is that of client metrics.
        Kind.KEY: lambda to, text: to.group(text),
        Kind.RESOURCE_NAME: lambda _, text: text,
    }
)
"""Whom to ask about a string of each kind that stands alone."""

EMBEDDED: Final[Mapping[Kind, AskBytes]] = MappingProxyType(
    {
        Kind.SUBSCRIPTION: lambda to, content: to.subscription(content),
        Kind.ASSIGNMENT: lambda to, content: to.assignment(content),
    }
)


_MAX_DIGITS: Final = 9


def _node_name(to: Entities, name: str) -> str:
    # An empty name means all brokers; any other is the broker's to refuse.
    if not (name.isascii() and name.isdigit()) or len(name) > _MAX_DIGITS:
        return name
    known = int(name)
    told = to.node(known)
    return name if told == known else str(told)


RESOURCES: Final[Mapping[int, AskText]] = MappingProxyType(
    {2: TEXTS[Kind.TOPIC], 4: _node_name, 8: _node_name, 32: TEXTS[Kind.GROUP]}
)
"""By type (`org.apache.kafka.common.config.ConfigResource.Type`): topic, broker, a broker's loggers, group."""

KEYS: Final[Mapping[int, AskText]] = MappingProxyType({0: TEXTS[Kind.GROUP], 1: TEXTS[Kind.TRANSACTIONAL_ID]})
"""By type; 2, of share groups, is for brokers only (`FindCoordinatorRequest.CoordinatorType`)."""

_NO_COORDINATOR: Final = INT16.pack(ErrorCode.COORDINATOR_NOT_AVAILABLE)
_NO_NODE: Final = INT32.pack(-1)
_NO_TOPIC_ID: Final = bytes(16)


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    ask: AskText
    is_flexible: bool
    is_nullable: bool

    def __call__(self, walk: Walk) -> None:
        _ask_text(walk, self.ask, self.is_flexible, self.is_nullable)


def _ask_text(walk: Walk, ask: AskText, is_flexible: bool, is_nullable: bool = False) -> None:
    start = walk.position
    length = walk.compact_length() if is_flexible else walk.int16()
    if length < 0:
        if is_nullable:
            return
        raise null(walk, "a string")
    text = walk.text(length)
    told = ask(walk.to, text)
    if told != text:
        walk.replace(start, walk.position, encoded_text(told, is_flexible))


@dataclass(frozen=True, slots=True)
class TypedText:
    """A string and a byte beside it that says what it is; one of a type that is not in `asks` stays."""

    asks: Mapping[int, AskText]
    is_flexible: bool
    is_type_first: bool

    def __call__(self, walk: Walk) -> None:
        if self.is_type_first:
            _ask_text(walk, self.asks.get(walk.int8(), _same), self.is_flexible)
            return
        start = walk.position
        walk.skip(walk.compact_length() if self.is_flexible else walk.int16())
        ask = self.asks.get(walk.int8(), _same)
        end, walk.position = walk.position, start
        _ask_text(walk, ask, self.is_flexible)
        walk.position = end


@dataclass(frozen=True, slots=True)
class TypedTexts:
    """A byte that says what the strings behind it are, and these."""

    asks: Mapping[int, AskText]

    def __call__(self, walk: Walk) -> None:
        ask = self.asks.get(walk.int8(), _same)
        for _ in range(walk.count(1, is_flexible=True)):
            _ask_text(walk, ask, is_flexible=True)


def _same(_: Entities, text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Embedded:
    """Bytes with a message of its own in them."""

    ask: AskBytes
    is_flexible: bool

    def __call__(self, walk: Walk) -> None:
        start = walk.position
        length = walk.compact_length() if self.is_flexible else walk.int32()
        content_start = walk.position
        walk.skip(length)
        content = walk.frame[content_start : walk.position]
        told = self.ask(walk.to, content)
        if told is not content and told != content:
            walk.replace(start, walk.position, encoded_count(len(told), self.is_flexible) + told)


def node(walk: Walk) -> None:
    """A node id."""
    start = walk.position
    known = walk.int32()
    if known >= 0 and (told := walk.to.node(known)) != known:
        walk.replace(start, walk.position, INT32.pack(told))


@dataclass(frozen=True, slots=True)
class Nodes:
    """An array of node ids, which is replaced as a whole."""

    is_flexible: bool
    is_nullable: bool

    def __call__(self, walk: Walk) -> None:
        count = walk.count(INT32.size, self.is_flexible)
        if count < 0 and not self.is_nullable:
            raise null(walk, "an array")
        if count <= 0:
            return
        start = walk.position
        walk.skip(count * INT32.size)
        row = Struct(f">{count}i")
        known = row.unpack_from(walk.frame, start)
        told = tuple([walk.to.node(one) if one >= 0 else one for one in known])
        if told != known:
            walk.replace(start, walk.position, row.pack(*told))


def producer(walk: Walk) -> None:
    """A producer id."""
    start = walk.position
    known = walk.int64()
    if known >= 0 and (told := walk.to.producer(known)) != known:
        walk.replace(start, walk.position, INT64.pack(told))


def topic_id(walk: Walk) -> None:
    """A topic id."""
    start = walk.position
    walk.skip(16)
    known = bytes(walk.frame[start : walk.position])
    if known != _NO_TOPIC_ID and (told := walk.to.topic_id(UUID(bytes=known)).bytes) != known:
        walk.replace(start, walk.position, told)


@dataclass(frozen=True, slots=True)
class Broker:
    """The id, the host and the port of a broker."""

    is_flexible: bool

    def __call__(self, walk: Walk) -> None:
        start = walk.position
        known = walk.int32()
        host_start = walk.position
        host = walk.text(walk.compact_length() if self.is_flexible else walk.int16())
        port = walk.int32()
        if known < 0:
            return
        address = walk.to.address(known, host, port) if host else (host, port)
        if address is None:
            walk.is_left_out = True
            return
        if (told := walk.to.node(known)) != known:
            walk.replace(start, host_start, INT32.pack(told))
        if address != (host, port):
            content = encoded_text(address[0], self.is_flexible) + INT32.pack(address[1])
            walk.replace(host_start, walk.position, content)


def coordinator_error(walk: Walk) -> None:
    """The error code of the coordinator that follows."""
    walk.error_at = walk.position, len(walk.replaced)
    walk.skip(INT16.size)


@dataclass(frozen=True, slots=True)
class Coordinator:
    """A coordinator, or none that clients could reach. Its error code stands in front, in older versions, or behind."""

    is_error_behind: bool
    is_flexible: bool

    def __call__(self, walk: Walk) -> None:
        start = walk.position
        Broker(self.is_flexible)(walk)
        if self.is_error_behind:
            walk.error_at = walk.position, len(walk.replaced) + 1
        if walk.is_left_out:
            walk.is_left_out = False
            walk.replace(start, walk.position, _NO_NODE + encoded_text("", self.is_flexible) + _NO_NODE)
            error_at, place = walk.error_at
            walk.insert(place, error_at, error_at + INT16.size, _NO_COORDINATOR)


@dataclass(frozen=True, slots=True)
class EndpointType:
    """What the nodes behind a byte are: brokers, or controllers, whose ids and addresses are their own."""

    brokers: Step
    controllers: Step

    def __call__(self, walk: Walk) -> None:
        if walk.int8() == 2:
            self.controllers(walk)
        else:
            self.brokers(walk)

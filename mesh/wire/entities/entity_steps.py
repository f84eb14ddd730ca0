"""Steps of a program that read an entity, and replace it if its translation differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import UUID

from mesh.wire.entities.handler import EntityTranslator
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.steps import Step, Walk, null
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT16, INT32, INT64
from mesh.wire.spans import encoded_count, encoded_text
from mesh.wire.text import text_of

TranslateText: TypeAlias = Callable[[EntityTranslator, str], str]
TranslateBytes: TypeAlias = Callable[[EntityTranslator, memoryview], Buffer]
TranslateNumber: TypeAlias = Callable[[EntityTranslator, int], int]

TEXTS: Final[Mapping[EntityKind, TranslateText]] = MappingProxyType(
    {
        EntityKind.CLUSTER_ID: lambda translator, text: translator.cluster_id(text),
        EntityKind.TOPIC: lambda translator, text: translator.topic(text),
        EntityKind.TOPIC_PATTERN: lambda translator, text: translator.topic_pattern(text),
        EntityKind.GROUP: lambda translator, text: translator.group(text),
        EntityKind.TRANSACTIONAL_ID: lambda translator, text: translator.transactional_id(text),
        EntityKind.TRANSACTIONAL_ID_PATTERN: lambda translator, text: translator.transactional_id_pattern(text),
        EntityKind.COORDINATOR_KEY: lambda translator, text: translator.coordinator_key(text),
        # FindCoordinator v0 finds groups. A resource without a type is a client metrics resource.
        EntityKind.KEY: lambda translator, text: translator.group(text),
        EntityKind.RESOURCE_NAME: lambda _, text: text,
    }
)
"""Translations of a single string, by its kind."""

EMBEDDED: Final[Mapping[EntityKind, TranslateBytes]] = MappingProxyType(
    {
        EntityKind.SUBSCRIPTION: lambda translator, content: translator.subscription(content),
        EntityKind.ASSIGNMENT: lambda translator, content: translator.assignment(content),
    }
)


NUMBERS: Final[Mapping[EntityKind, TranslateNumber]] = MappingProxyType(
    {
        EntityKind.NODE: lambda translator, number: translator.node(number),
        EntityKind.PARTITION: lambda translator, number: translator.partition(number),
    }
)
"""Translations of the numbers in an array, by their kind."""

_MAX_DIGITS: Final = 9


def _node_name(translator: EntityTranslator, name: str) -> str:
    # An empty name means all brokers. The broker refuses any other name that is not a node id.
    if not (name.isascii() and name.isdigit()) or len(name) > _MAX_DIGITS:
        return name
    known = int(name)
    told = translator.node(known)
    return name if told == known else str(told)


RESOURCES: Final[Mapping[int, TranslateText]] = MappingProxyType(
    {2: TEXTS[EntityKind.TOPIC], 4: _node_name, 8: _node_name, 32: TEXTS[EntityKind.GROUP]}
)
"""Translations of resource names, by resource type (`org.apache.kafka.common.config.ConfigResource.Type`): topic,
broker, broker loggers, group."""

KEYS: Final[Mapping[int, TranslateText]] = MappingProxyType(
    {0: TEXTS[EntityKind.GROUP], 1: TEXTS[EntityKind.TRANSACTIONAL_ID]}
)
"""Translations of coordinator keys, by key type. Type 2, of share groups, is for brokers only
(`FindCoordinatorRequest.CoordinatorType`)."""

_NO_COORDINATOR: Final = INT16.pack(ErrorCode.COORDINATOR_NOT_AVAILABLE)
_NO_NODE: Final = INT32.pack(-1)
_NO_TOPIC_ID: Final = bytes(16)


@dataclass(frozen=True, slots=True)
class Text:
    """Translates a string."""

    translate: TranslateText
    is_flexible: bool
    is_nullable: bool

    def __call__(self, walk: Walk) -> None:
        _translate_text(walk, self.translate, self.is_flexible, self.is_nullable)


def _translate_text(walk: Walk, translate: TranslateText, is_flexible: bool, is_nullable: bool = False) -> None:
    start = walk.position
    length = walk.compact_length() if is_flexible else walk.int16()
    if length < 0:
        if is_nullable:
            return
        raise null(walk, "a string")
    try:
        text = walk.strict_text(length)
    except UnicodeDecodeError as error:
        # Another reader may replace these bytes by other characters. It gets the characters that were read here.
        told = translate(walk.translator, text_of(error.object))
        try:
            walk.replace(start, walk.position, encoded_text(told, is_flexible))
        except ValueError as problem:
            raise ProtocolError("invalid_length", str(problem)) from problem
        return
    told = translate(walk.translator, text)
    if told != text:
        walk.replace(start, walk.position, encoded_text(told, is_flexible))


@dataclass(frozen=True, slots=True)
class TypedText:
    """Translates a string that has a type byte next to it; a string of a type that is not in `translations` stays."""

    translations: Mapping[int, TranslateText]
    is_flexible: bool
    is_type_first: bool

    def __call__(self, walk: Walk) -> None:
        if self.is_type_first:
            _translate_text(walk, self.translations.get(walk.int8(), _same), self.is_flexible)
            return
        start = walk.position
        walk.skip(walk.compact_length() if self.is_flexible else walk.int16())
        translate = self.translations.get(walk.int8(), _same)
        end, walk.position = walk.position, start
        _translate_text(walk, translate, self.is_flexible)
        walk.position = end


@dataclass(frozen=True, slots=True)
class TypedTexts:
    """Translates strings after a byte that gives their type."""

    translations: Mapping[int, TranslateText]

    def __call__(self, walk: Walk) -> None:
        translate = self.translations.get(walk.int8(), _same)
        count = walk.count(1, is_flexible=True)
        if count < 0:
            raise null(walk, "an array")
        for _ in range(count):
            _translate_text(walk, translate, is_flexible=True)


def _same(_: EntityTranslator, text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Embedded:
    """Translates bytes that contain another message."""

    translate: TranslateBytes
    is_flexible: bool

    def __call__(self, walk: Walk) -> None:
        start = walk.position
        length = walk.compact_length() if self.is_flexible else walk.int32()
        content_start = walk.position
        walk.skip(length)
        content = walk.frame[content_start : walk.position]
        told = self.translate(walk.translator, content)
        if told is not content and told != content:
            walk.replace(start, walk.position, encoded_count(len(told), self.is_flexible) + told)


def node(walk: Walk) -> None:
    """Translates a node id."""
    start = walk.position
    known = walk.int32()
    if known >= 0 and (told := walk.translator.node(known)) != known:
        walk.replace(start, walk.position, INT32.pack(told))


def partition(walk: Walk) -> None:
    """Translates a partition number."""
    start = walk.position
    known = walk.int32()
    if known >= 0 and (told := walk.translator.partition(known)) != known:
        walk.replace(start, walk.position, INT32.pack(told))


def leader_epoch(walk: Walk) -> None:
    """Translates a leader epoch."""
    start = walk.position
    known = walk.int32()
    if known >= 0 and (told := walk.translator.leader_epoch(known)) != known:
        walk.replace(start, walk.position, INT32.pack(told))


def record_epoch(walk: Walk) -> None:
    """Translates the epoch of a record."""
    start = walk.position
    known = walk.int32()
    if known >= 0 and (told := walk.translator.record_epoch(known)) != known:
        walk.replace(start, walk.position, INT32.pack(told))


def end_epoch(walk: Walk) -> None:
    """Translates the epoch of the end offset that follows."""
    start = walk.position
    known = walk.int32()
    if (told := walk.translator.end_epoch(known)) != known:
        walk.replace(start, walk.position, INT32.pack(told))


def end_offset(walk: Walk) -> None:
    """Translates the offset at which the log of an epoch ends."""
    start = walk.position
    known = walk.int64()
    if (told := walk.translator.end_offset(known)) != known:
        walk.replace(start, walk.position, INT64.pack(told))


@dataclass(frozen=True, slots=True)
class Numbers:
    """Translates an array of node ids or partition numbers, and replaces it as a whole."""

    translate: TranslateNumber
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
        translate, translator = self.translate, walk.translator
        told = tuple([translate(translator, one) if one >= 0 else one for one in known])
        if told != known:
            walk.replace(start, walk.position, row.pack(*told))


def producer(walk: Walk) -> None:
    """Translates a producer id."""
    start = walk.position
    known = walk.int64()
    if known >= 0 and (told := walk.translator.producer(known)) != known:
        walk.replace(start, walk.position, INT64.pack(told))


def topic_id(walk: Walk) -> None:
    """Translates a topic id."""
    start = walk.position
    walk.skip(16)
    known = bytes(walk.frame[start : walk.position])
    if known != _NO_TOPIC_ID and (told := walk.translator.topic_id(UUID(bytes=known)).bytes) != known:
        walk.replace(start, walk.position, told)


@dataclass(frozen=True, slots=True)
class BrokerFields:
    """Translates the id, host and port of a broker."""

    is_flexible: bool

    def __call__(self, walk: Walk) -> None:
        start = walk.position
        known = walk.int32()
        host_start = walk.position
        host = walk.text(walk.compact_length() if self.is_flexible else walk.int16())
        port = walk.int32()
        if known < 0:
            return
        address = walk.translator.address(known, host, port) if host else (host, port)
        if address is None:
            walk.is_left_out = True
            return
        if (told := walk.translator.node(known)) != known:
            walk.replace(start, host_start, INT32.pack(told))
        if address != (host, port):
            content = encoded_text(address[0], self.is_flexible) + INT32.pack(address[1])
            walk.replace(host_start, walk.position, content)


def coordinator_error(walk: Walk) -> None:
    """Notes the position of the error code of the coordinator that follows."""
    walk.error_at = walk.position, len(walk.replaced)
    walk.skip(INT16.size)


@dataclass(frozen=True, slots=True)
class CoordinatorFields:
    """Translates a coordinator; one that clients cannot reach becomes an error. Its error code precedes it in older
    versions, and follows it in newer ones."""

    is_error_behind: bool
    is_flexible: bool

    def __call__(self, walk: Walk) -> None:
        start = walk.position
        BrokerFields(self.is_flexible)(walk)
        if self.is_error_behind:
            walk.error_at = walk.position, len(walk.replaced) + 1
        if walk.is_left_out:
            walk.is_left_out = False
            walk.replace(start, walk.position, _NO_NODE + encoded_text("", self.is_flexible) + _NO_NODE)
            error_at, place = walk.error_at
            walk.insert(place, error_at, error_at + INT16.size, _NO_COORDINATOR)


@dataclass(frozen=True, slots=True)
class EndpointType:
    """Reads nodes after a byte that says what they are: brokers, or controllers, whose ids and addresses stay."""

    brokers: Step
    controllers: Step

    def __call__(self, walk: Walk) -> None:
        if walk.int8() == 2:
            self.controllers(walk)
        else:
            self.brokers(walk)

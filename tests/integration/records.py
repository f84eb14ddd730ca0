"""Records with a unique id, of every shape that Kafka allows, and the independent account of where each of them
ended."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

EPOCH = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

_KEYS = (None, b"", b"a text", b"another text", b"\x00\xff\n\xc3\x28")
_HEADERS: tuple[Headers, ...] = (
    (),
    (("trace", b"1"), ("trace", b"1"), ("trace", b"2")),
    (("null", None), ("empty", b"")),
    (("", b"a header without a name"),),
    (("binary", b"\xff\xc3\x28\x00\x01"),),
)


class View(Enum):
    """The parts of a record that a client shows."""

    WHOLE = "all of it"
    KCAT = "no type of the timestamp, and of a header what is before its first NUL"
    JAVA = "the value"
    WITHOUT_NULL = "no difference between nothing and no bytes"


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a client sees it; timestamp in ms since the epoch, of confluent-kafka's TIMESTAMP_ types."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    timestamp_type: int = TIMESTAMP_CREATE_TIME

    @classmethod
    def of(cls, message: Message) -> Record:
        """The record in a message that is no error."""
        timestamp_type, timestamp = message.timestamp()
        headers: Headers = tuple(message.headers() or ())  # type: ignore[arg-type]
        return cls(_bytes(message.key()), _bytes(message.value()), headers, timestamp, timestamp_type)

    @property
    def id(self) -> str:
        """The value up to the first "|"; a tombstone has its id for a key."""
        text = self.key if self.value is None else self.value
        assert text is not None, f"a record without an id: {self}"
        return text.partition(b"|")[0].decode()

    def fingerprint(self, view: View) -> str:
        """A hash of the parts that a view shows."""
        match view:
            case View.WHOLE:
                seen: object = (self.key, self.value, self.headers, self.timestamp, self.timestamp_type)
            case View.KCAT:
                headers = tuple((name, value and value.partition(b"\0")[0]) for name, value in self.headers)
                seen = (self.key, self.value, headers, self.timestamp)
            case View.JAVA:
                seen = self.value
            case View.WITHOUT_NULL:
                headers = tuple((name, value or None) for name, value in self.headers)
                seen = (self.key or None, self.value or None, headers, self.timestamp)
        return hashlib.sha256(repr(seen).encode()).hexdigest()[:24]


def varied_record(identity: str, number: int) -> Record:
    """The record number `number` of a feed: the shapes of keys, headers and values repeat with different periods."""
    headers = _HEADERS[number // len(CODECS) % len(_HEADERS)]
    timestamp = EPOCH + 7 * number
    if number % 11 == 10:
        return Record(identity.encode(), None, headers, timestamp)
    filler = b"." * (20_000 if number % 997 == 0 else number % 200)
    return Record(_KEYS[number % 7 % len(_KEYS)], identity.encode() + b"|" + filler, headers, timestamp)


@dataclass(frozen=True, slots=True)
class Stored:
    """A record, and where a cluster keeps it."""

    record: Record
    cluster: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record as a member got it: its id, the parts that the member saw, and the (virtual) offset."""

    id: str
    view: View
    fingerprint: str
    member: str
    partition: int
    offset: int


@dataclass(slots=True)
class Account:
    """The fate of the stored records. If all fields are empty, each was delivered once, as it is stored."""

    stored: int
    delivered: int
    lost: list[str] = field(default_factory=list)
    unknown: list[Delivery] = field(default_factory=list)
    altered: list[Delivery] = field(default_factory=list)
    twice: dict[str, list[Delivery]] = field(default_factory=dict)

    def assert_nothing_lost_or_altered(self) -> None:
        """The test itself judges duplicates."""
        assert not (self.lost or self.unknown or self.altered), str(self)

    def assert_each_once(self) -> None:
        """Asserts that no record is lost, altered or delivered twice."""
        assert not (self.lost or self.unknown or self.altered or self.twice), str(self)

    def __str__(self) -> str:
        return "\n".join((f"{self.stored} records stored, {self.delivered} delivered", *self._findings()))

    def _findings(self) -> Iterator[str]:
        for what, ids in (("lost", self.lost), ("twice", list(self.twice))):
            yield f"{what}: {len(ids)} {sorted(ids)[:10]}"
        for what, deliveries in (("never stored", self.unknown), ("altered", self.altered)):
            yield f"{what}: {len(deliveries)} {deliveries[:3]}"
        takers = Counter(tuple(sorted(each.member for each in several)) for several in self.twice.values())
        for members, count in takers.most_common(5):
            yield f"  twice, {count} times: {', '.join(members)}"


def account(stored: Mapping[str, Stored], deliveries: Iterable[Delivery]) -> Account:
    """Compares the members' deliveries with the stored records."""
    by_id: dict[str, list[Delivery]] = {}
    for delivery in deliveries:
        by_id.setdefault(delivery.id, []).append(delivery)
    result = Account(len(stored), sum(map(len, by_id.values())), lost=[each for each in stored if each not in by_id])
    for identity, several in by_id.items():
        original = stored.get(identity)
        if original is None:
            result.unknown += several
            continue
        result.altered += [each for each in several if each.fingerprint != original.record.fingerprint(each.view)]
        if len(several) > 1:
            result.twice[identity] = several
    return result


def jain_index(shares: Iterable[int]) -> float:
    """Jain's fairness index: 1 if all shares are equal, 1/n if one has all."""
    values = list(shares)
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values)) if any(values) else 0.0


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part

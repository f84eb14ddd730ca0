"""What was acknowledged above the committed offset, and what is leased, as text in the metadata of the commit.

    kafka-mesh/1 BASE RUNS CHECK
    kafka-mesh/2 BASE RUNS LEASES CHECK           while there are leases
    kafka-mesh/3 BASE RUNS LEASES COUNTS CHECK    while something was delivered in vain

BASE: the committed offset, in digits. RUNS: for each settled run above it, ascending, how many offsets lie between the
run before (or BASE) and it, and how many it has; varints as in records, base64url without padding. CHECK: CRC-32 of
all that and of the partition's topic and number, 8 hexadecimal digits; so metadata that was copied elsewhere, or put to
another offset by a tool that resets positions, is not taken for ours. LEASES: for each lease its name and its holder's
(length and UTF-8), its deadline in seconds since the epoch, how many runs it holds, and those as in RUNS. COUNTS: for
each span that was delivered in vain, ascending, how many offsets lie between the span before (or BASE) and it, how many
it has, and how often.

A version that tells of nothing more than an older one is not written: so older processes read all they can.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mesh.pool.state.delivery_counts import Counted
from mesh.pool.state.leases import LONGEST_NAME, HolderId, LeaseId, StoredLease
from mesh.records.spans import Span, UpstreamPartition
from mesh.records.varints import encode_varint, read_varint

PREFIX = "kafka-mesh/"
VERSION = "1"
WITH_LEASES = "2"
WITH_COUNTS = "3"
_FIELDS = {VERSION: 4, WITH_LEASES: 5, WITH_COUNTS: 6}
LONGEST = 32_767
"""Characters. Kafka's strings hold no more; brokers allow 4,096 unless they are told otherwise."""


class ForeignMetadata(ValueError):
    """Not of this partition and offset, of a version we do not know, or damaged. The message says which."""


NOTHING_STORED = -1
"""`covered` when not even the leases fitted."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The metadata of a commit, packed. text: "" when there is nothing to say. covered: the first offset that did not
    fit; None when all did. used: how many characters there are without the counts, which take only what room is
    left."""

    text: str
    covered: int | None
    used: int = 0


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The metadata of a commit, unpacked. runs: settled, above the base, ascending. leases: by their names. counts: of
    what was delivered in vain."""

    runs: tuple[Span, ...] = ()
    leases: tuple[StoredLease, ...] = ()
    counts: tuple[Counted, ...] = ()


def pack(
    partition: UpstreamPartition,
    base: int,
    runs: Iterable[Span],
    limit: int,
    leases: Sequence[StoredLease] = (),
    counts: Iterable[Counted] = (),
    limit_with_counts: int = 0,
) -> Packed:
    """At most `limit` characters; what does not fit is left out, highest runs first. Leases are never left out. Counts
    are told as far as all is no longer than `limit_with_counts` then; what does not fit of them is left out, lowest
    counts first."""
    held = _encoded_leases(base, leases)
    head = f"{PREFIX}{WITH_LEASES if held else VERSION} {base} "
    tail = f" {held}" if held else ""
    room = (limit - len(head) - len(tail) - len(" 01234567")) * 3 // 4
    if held and room < 0:
        return Packed("", NOTHING_STORED)
    payload = bytearray()
    position, covered = base, None
    for run in runs:
        entry = encode_varint(run.first - position) + encode_varint(len(run))
        if len(payload) + len(entry) > room:
            covered = run.first
            break
        payload += entry
        position = run.last + 1
    text = _text(partition, f"{head}{_base64(payload)}{tail}") if payload or held else ""
    longest = len(head) + len(_base64(payload)) + len(held) + len("  01234567")
    told = _encoded_counts(base, counts, (limit_with_counts - longest - 1) * 3 // 4)
    if not told:
        return Packed(text, covered, len(text))
    body = f"{PREFIX}{WITH_COUNTS} {base} {_base64(payload)} {held} {told}"
    return Packed(_text(partition, body), covered, len(text))


def _text(partition: UpstreamPartition, body: str) -> str:
    return f"{body} {_check(partition, body)}"


def size_of_leases(base: int, leases: Sequence[StoredLease]) -> int:
    """Characters that they take of the metadata."""
    return len(_encoded_leases(base, leases))


def unpack(partition: UpstreamPartition, base: int, text: str) -> Unpacked:
    """Nothing of text that is not ours at all. Raises ForeignMetadata."""
    if not text.startswith(PREFIX):
        return Unpacked()
    if len(text) > LONGEST:
        raise ForeignMetadata(f"{len(text)} characters")
    fields = text.removeprefix(PREFIX).split(" ")
    if fields[0] not in _FIELDS:
        raise ForeignMetadata(f"version {fields[0][:16]}")
    body, _, check = text.rpartition(" ")
    if len(fields) != _FIELDS[fields[0]] or check != _check(partition, body):
        raise ForeignMetadata("it is damaged, or of another partition")
    if fields[1] != str(base):
        raise ForeignMetadata(f"it belongs to offset {fields[1]}, not {base}")
    try:
        runs = _Reader(fields[2]).runs(base)
        leases = _leases(base, fields[3]) if fields[0] != VERSION else ()
        counts = _counts(base, fields[4]) if fields[0] == WITH_COUNTS else ()
    except (Base64Error, ValueError, IndexError) as problem:
        raise problem if isinstance(problem, ForeignMetadata) else ForeignMetadata(str(problem)) from problem
    return Unpacked(runs, leases, counts)


class _Reader:
    def __init__(self, payload: str) -> None:
        self._data = urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._data)

    def number(self) -> int:
        value, self._at = read_varint(self._data, self._at)
        return value

    def name(self) -> str:
        length = self.number()
        end = self._at + length
        if not 0 < length <= LONGEST_NAME or end > len(self._data):
            raise ForeignMetadata("a name that is empty or does not end")
        name, self._at = self._data[self._at : end].decode(), end
        return name

    def runs(self, base: int, most: int | None = None) -> tuple[Span, ...]:
        """All that are left, or so many."""
        runs: list[Span] = []
        position = base
        while len(runs) < most if most is not None else not self.is_at_end:
            gap, count = self.number(), self.number()
            if count < 1 or gap < (most is None):
                raise ForeignMetadata("a run that is empty or not apart from the one before")
            runs.append(Span(position + gap, position + gap + count - 1))
            position += gap + count
        return tuple(runs)


def _leases(base: int, payload: str) -> tuple[StoredLease, ...]:
    reader = _Reader(payload)
    leases: list[StoredLease] = []
    while not reader.is_at_end:
        id, holder, deadline = LeaseId(reader.name()), HolderId(reader.name()), reader.number()
        leases.append(StoredLease(id, holder, deadline, reader.runs(base, reader.number())))
    return tuple(leases)


def _counts(base: int, payload: str) -> tuple[Counted, ...]:
    reader = _Reader(payload)
    counts: list[Counted] = []
    position = base
    while not reader.is_at_end:
        gap, length, count = reader.number(), reader.number(), reader.number()
        if gap < 0 or length < 1 or count < 1:
            raise ForeignMetadata("a count of nothing")
        counts.append(Counted(Span(position + gap, position + gap + length - 1), count))
        position += gap + length
    return tuple(counts)


def _encoded_counts(base: int, counts: Iterable[Counted], room: int) -> str:
    """At most `room` bytes before they are text."""
    chosen: list[Counted] = []
    for each in sorted(counts, key=lambda each: -each.count):
        # A gap never takes more than the whole way from the base; what is left out lengthens the next one.
        room -= sum(len(encode_varint(number)) for number in (each.span.first - base, len(each.span), each.count))
        if room < 0:
            break
        chosen.append(each)
    payload = bytearray()
    position = base
    for each in sorted(chosen, key=lambda each: each.span.first):
        for number in (each.span.first - position, len(each.span), each.count):
            payload += encode_varint(number)
        position = each.span.last + 1
    return _base64(payload)


def _encoded_leases(base: int, leases: Sequence[StoredLease]) -> str:
    payload = bytearray()
    for lease in leases:
        for name in (lease.id.encode(), lease.holder.encode()):
            payload += encode_varint(len(name)) + name
        payload += encode_varint(lease.deadline) + encode_varint(len(lease.spans))
        position = base
        for span in lease.spans:
            payload += encode_varint(span.first - position) + encode_varint(len(span))
            position = span.last + 1
    return _base64(payload)


def _base64(payload: bytes | bytearray) -> str:
    return urlsafe_b64encode(payload).rstrip(b"=").decode()


def _check(partition: UpstreamPartition, body: str) -> str:
    return f"{zlib.crc32(f'{partition.topic} {partition.partition} {body}'.encode()):08x}"

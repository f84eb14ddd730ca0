"""The format of the commit metadata: a text with the acknowledged runs above the committed offset, and leases.

    kafka-mesh/1 BASE RUNS CHECK
    kafka-mesh/2 BASE RUNS LEASES CHECK                 while there are leases
    kafka-mesh/3 BASE RUNS LEASES COUNTS CHECK          while records were delivered in vain
    kafka-mesh/4 BASE RUNS LEASES COUNTS REPLAY CHECK   while there is a replay

* BASE: the committed offset, in digits.
* RUNS: for each settled run above it, ascending, the number of offsets between the run before (or BASE) and it, and the
  number of its offsets. Varints as in records, base64url without padding.
* LEASES: for each lease its name and its holder's (length and UTF-8), its deadline in seconds since the epoch, the
  number of its runs, and these as in RUNS.
* COUNTS: for each span that was delivered in vain, ascending, the number of offsets between the span before (or BASE)
  and it, the number of its offsets, and its count.
* REPLAY: see `mesh.pool.offsets.replays`.
* CHECK: CRC-32 of all that, and of the partition's topic and number, 8 hexadecimal digits. So metadata is not accepted
  if it was copied elsewhere, or put to another offset by a tool that resets positions.

The lowest version that can hold the content is written, so that older processes can read as much as possible.
"""

from __future__ import annotations

import zlib
from binascii import Error as Base64Error
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mesh.pool.offsets.payload import ForeignMetadata, Reader, to_base64
from mesh.pool.offsets.replays import encode_replay, read_replay
from mesh.pool.state.delivery_counts import Counted
from mesh.pool.state.leases import LONGEST_NAME, HolderId, LeaseId, StoredLease
from mesh.pool.state.replayed import StoredReplay
from mesh.records.spans import Span, UpstreamPartition
from mesh.records.varints import encode_varint

PREFIX = "kafka-mesh/"
VERSION = "1"
WITH_LEASES = "2"
WITH_COUNTS = "3"
WITH_REPLAY = "4"
_FIELDS = {VERSION: 4, WITH_LEASES: 5, WITH_COUNTS: 6, WITH_REPLAY: 7}
LONGEST = 32_767
"""The most characters in a Kafka string. Brokers allow 4,096 unless configured."""


NOTHING_STORED = -1
"""The value of `covered` when even the leases and replays did not fit."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The packed metadata of a commit. text: "" if there is nothing to store. covered: the first offset that did not
    fit; None if all did. used: the number of characters without the counts, which take only the room that is left."""

    text: str
    covered: int | None
    used: int = 0


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The content of a commit's metadata. runs: settled spans above the base, ascending. leases: the leases with their
    spans. counts: deliveries in vain. replay: spans to deliver again."""

    runs: tuple[Span, ...] = ()
    leases: tuple[StoredLease, ...] = ()
    counts: tuple[Counted, ...] = ()
    replay: StoredReplay | None = None


def pack(
    partition: UpstreamPartition,
    base: int,
    runs: Iterable[Span],
    limit: int,
    leases: Sequence[StoredLease] = (),
    counts: Iterable[Counted] = (),
    limit_with_counts: int = 0,
    replay: StoredReplay | None = None,
) -> Packed:
    """Packs metadata of at most `limit` characters. The highest runs that do not fit are left out; leases and a replay
    never are. The highest counts are kept, up to `limit_with_counts` characters."""
    held = _encoded_leases(base, leases)
    again = encode_replay(replay, limit) if replay is not None else ""
    head = f"{PREFIX}{VERSION} {base} "
    tail = f" {held}  {again}" if again else f" {held}" if held else ""
    room = (limit - len(head) - len(tail) - len(" 01234567")) * 3 // 4
    if (held or again) and room < 0:
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
    encoded_runs = to_base64(payload)
    text = _text(partition, base, encoded_runs, held, "", again)
    longest = len(head) + len(encoded_runs) + len(held) + len("  01234567 ") + (len(f" {again}") if again else 0)
    encoded_counts = _encoded_counts(base, counts, (limit_with_counts - longest) * 3 // 4)
    if not encoded_counts:
        return Packed(text, covered, len(text))
    return Packed(_text(partition, base, encoded_runs, held, encoded_counts, again), covered, len(text))


def _text(partition: UpstreamPartition, base: int, runs: str, leases: str, counts: str, replay: str) -> str:
    """Returns the text in the lowest version that can hold it; "" for no content."""
    if replay:
        body = f"{PREFIX}{WITH_REPLAY} {base} {runs} {leases} {counts} {replay}"
    elif counts:
        body = f"{PREFIX}{WITH_COUNTS} {base} {runs} {leases} {counts}"
    elif leases:
        body = f"{PREFIX}{WITH_LEASES} {base} {runs} {leases}"
    elif runs:
        body = f"{PREFIX}{VERSION} {base} {runs}"
    else:
        return ""
    return f"{body} {_check(partition, body)}"


def size_of_leases(base: int, leases: Sequence[StoredLease]) -> int:
    """Returns the characters of metadata that these leases take."""
    return len(_encoded_leases(base, leases))


def unpack(partition: UpstreamPartition, base: int, text: str) -> Unpacked:
    """Unpacks metadata. Raises ForeignMetadata if it has our prefix but is not valid here. Returns nothing for other
    texts."""
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
        runs = Reader(fields[2]).runs(base)
        leases = _leases(base, fields[3]) if fields[0] != VERSION else ()
        counts = _counts(base, fields[4]) if fields[0] in (WITH_COUNTS, WITH_REPLAY) else ()
        replay = read_replay(fields[5]) if fields[0] == WITH_REPLAY else None
    except (Base64Error, ValueError, IndexError) as problem:
        raise problem if isinstance(problem, ForeignMetadata) else ForeignMetadata(str(problem)) from problem
    return Unpacked(runs, leases, counts, replay)


def _leases(base: int, payload: str) -> tuple[StoredLease, ...]:
    reader = Reader(payload)
    leases: list[StoredLease] = []
    while not reader.is_at_end:
        id, holder, deadline = LeaseId(reader.name(LONGEST_NAME)), HolderId(reader.name(LONGEST_NAME)), reader.number()
        leases.append(StoredLease(id, holder, deadline, reader.runs(base, reader.number())))
    return tuple(leases)


def _counts(base: int, payload: str) -> tuple[Counted, ...]:
    reader = Reader(payload)
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
    """Returns the counts in at most `room` bytes, before base64."""
    chosen: list[Counted] = []
    for each in sorted(counts, key=lambda each: -each.count):
        # Assume the longest gap, from the base: a run that is left out lengthens the next gap.
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
    return to_base64(payload)


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
    return to_base64(payload)


def _check(partition: UpstreamPartition, body: str) -> str:
    return f"{zlib.crc32(f'{partition.topic} {partition.partition} {body}'.encode()):08x}"

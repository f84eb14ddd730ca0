"""What was acknowledged above the committed offset, as text in the metadata of the commit.

    kafka-mesh/1 BASE RUNS CHECK

BASE: the committed offset, in digits. RUNS: for each settled run above it, ascending, how many offsets lie between the
run before (or BASE) and it, and how many it has; varints as in records, base64url without padding. CHECK: CRC-32 of
all that and of the partition's topic and number, 8 hexadecimal digits; so metadata that was copied elsewhere, or put to
another offset by a tool that resets positions, is not taken for ours.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable
from dataclasses import dataclass

from mesh.records.spans import Span, UpstreamPartition
from mesh.records.varints import encode_varint, read_varint

PREFIX = "kafka-mesh/"
VERSION = "1"
LONGEST = 32_767
"""Characters. Kafka's strings hold no more; brokers allow 4,096 unless they are told otherwise."""


class ForeignMetadata(ValueError):
    """Not of this partition and offset, of a version we do not know, or damaged. The message says which."""


@dataclass(frozen=True, slots=True)
class Packed:
    """text: "" when there is nothing to say. covered: the first offset that did not fit; None when all did."""

    text: str
    covered: int | None


def pack(partition: UpstreamPartition, base: int, runs: Iterable[Span], limit: int) -> Packed:
    """At most `limit` characters; what does not fit is left out, highest runs first."""
    head = f"{PREFIX}{VERSION} {base} "
    room = (limit - len(head) - len(" 01234567")) * 3 // 4
    payload = bytearray()
    position, covered = base, None
    for run in runs:
        entry = encode_varint(run.first - position) + encode_varint(len(run))
        if len(payload) + len(entry) > room:
            covered = run.first
            break
        payload += entry
        position = run.last + 1
    if not payload:
        return Packed("", covered)
    body = head + urlsafe_b64encode(payload).rstrip(b"=").decode()
    return Packed(f"{body} {_check(partition, body)}", covered)


def unpack(partition: UpstreamPartition, base: int, text: str) -> list[Span]:
    """The settled runs above `base`, ascending; none of text that is not ours at all. Raises ForeignMetadata."""
    if not text.startswith(PREFIX):
        return []
    if len(text) > LONGEST:
        raise ForeignMetadata(f"{len(text)} characters")
    fields = text.removeprefix(PREFIX).split(" ")
    if fields[0] != VERSION:
        raise ForeignMetadata(f"version {fields[0][:16]}")
    body, _, check = text.rpartition(" ")
    if len(fields) != 4 or check != _check(partition, body):
        raise ForeignMetadata("it is damaged, or of another partition")
    if fields[1] != str(base):
        raise ForeignMetadata(f"it belongs to offset {fields[1]}, not {base}")
    return _runs(base, fields[2])


def _runs(base: int, payload: str) -> list[Span]:
    try:
        data = urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    except Base64Error as problem:
        raise ForeignMetadata(str(problem)) from problem
    runs: list[Span] = []
    position, at = base, 0
    while at < len(data):
        try:
            gap, at = read_varint(data, at)
            count, at = read_varint(data, at)
        except (ValueError, IndexError) as problem:
            raise ForeignMetadata("a number that does not end") from problem
        if gap < 1 or count < 1:
            raise ForeignMetadata("a run that is empty or not apart from the one before")
        runs.append(Span(position + gap, position + gap + count - 1))
        position += gap + count
    return runs


def _check(partition: UpstreamPartition, body: str) -> str:
    return f"{zlib.crc32(f'{partition.topic} {partition.partition} {body}'.encode()):08x}"

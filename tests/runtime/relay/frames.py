"""Kafka's frames as bytes, in versions that are easy to write."""

from __future__ import annotations

from collections.abc import Mapping
from struct import pack, unpack_from
from typing import Any

from mesh.wire.apis import ApiKey


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def request(key: int, version: int, correlation_id: int, body: bytes = b"", client_id: bytes = b"test") -> bytes:
    return framed(pack(">hhih", key, version, correlation_id, len(client_id)) + client_id + body)


def produce(correlation_id: int, acks: int = 1, records: bytes = b"records") -> bytes:
    return request(ApiKey.PRODUCE, 3, correlation_id, pack(">hh", -1, acks) + records)


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    return framed(pack(">i", correlation_id) + body)


def text(value: str) -> bytes:
    return pack(">h", len(value)) + value.encode()


def metadata(brokers: Mapping[int, tuple[str, int]]) -> bytes:
    """The body of an answer in v4, without topics."""
    listed = b"".join(pack(">i", id) + text(host) + pack(">ih", port, -1) for id, (host, port) in brokers.items())
    return pack(">ii", 0, len(brokers)) + listed + pack(">hii", -1, -1, 0)


def brokers_in(frame: bytes) -> dict[int, tuple[str, int]]:
    """The brokers in an answer to Metadata v4, without its length."""
    (count,) = unpack_from(">i", frame, 8)
    at, found = 12, {}
    for _ in range(count):
        id, length = unpack_from(">ih", frame, at)
        host = frame[at + 6 : at + 6 + length].decode()
        (port,) = unpack_from(">i", frame, at + 6 + length)
        found[id] = (host, port)
        at += 6 + length + 6
    return found


def versions(serves: Mapping[Any, tuple[int, int]]) -> bytes:
    """The body of an answer to ApiVersions v0."""
    return pack(">hi", 0, len(serves)) + b"".join(pack(">hhh", key, *each) for key, each in serves.items())


def versions_in(frame: bytes) -> dict[int, tuple[int, int]]:
    """The versions in an answer to ApiVersions v0, without its length."""
    (count,) = unpack_from(">i", frame, 6)
    rows = (unpack_from(">hhh", frame, 10 + 6 * index) for index in range(count))
    return {key: (lowest, highest) for key, lowest, highest in rows}

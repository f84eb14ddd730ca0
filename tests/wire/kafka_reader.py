"""Kafka's own classes as readers of messages, in one Java process."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from mesh.wire.entities import Direction
from tests.integration.jars import NEWEST_CLIENTS, kafka_jars
from tests.wire.entities.messages import Message

PROGRAM = Path(__file__).with_name("KafkaReader.java")
_LENGTH = Struct(">i")
_RESPONSE = Struct(">hh")
_READ = Struct(">??ii")


@dataclass(frozen=True, slots=True)
class KafkaRead:
    """A message as Kafka has read it. is_lossy: whether Kafka left out unknown tagged fields, or bytes behind the last
    field. body_at: the position of the body. body: the body as Kafka writes it."""

    is_lossy: bool
    body_at: int
    client_id: str | None
    body: bytes


OF_ANOTHER_VERSION = KafkaRead(True, -1, None, b"")
"""Stands for a message that Kafka refuses for a tag that only another version has. The mesh leaves such a tag out."""


class KafkaReader:
    """The Java process. Must be closed."""

    def __init__(self) -> None:
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{kafka_jars(NEWEST_CLIENTS)}/*", str(PROGRAM)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read(self, messages: Sequence[tuple[Message, bytes]]) -> list[KafkaRead | None]:
        """Reads requests with their headers, and bodies of responses; None for those that Kafka refuses, or
        `OF_ANOTHER_VERSION`."""
        writer = threading.Thread(target=self._write, args=(messages,))
        writer.start()
        found = [self._next() for _ in messages]
        writer.join()
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(30) == 0

    def _write(self, messages: Sequence[tuple[Message, bytes]]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        for (api_key, version, side), data in messages:
            head = b"\1" if side is Direction.REQUEST else b"\0" + _RESPONSE.pack(api_key, version)
            stdin.write(_LENGTH.pack(len(head) + len(data)) + head + data)
        stdin.flush()

    def _next(self) -> KafkaRead | None:
        (length,) = _LENGTH.unpack(self._take(_LENGTH.size))
        answer = self._take(length)
        if answer[0] != 1:
            return OF_ANOTHER_VERSION if answer[0] else None
        _, is_lossy, body_at, size = _READ.unpack_from(answer)
        end = _READ.size + max(size, 0)
        client_id = None if size < 0 else answer[_READ.size : end].decode()
        return KafkaRead(is_lossy, body_at, client_id, answer[end:])

    def _take(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise RuntimeError("Kafka's reader has ended; see its error output")
        return data

"""A broker that answers as a test says, byte by byte if need be, on a real socket in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from struct import Struct

from mesh.wire.client.messages import API_VERSIONS, METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE

_START = Struct(">hhi")
_SERVED = {METADATA: (0, 12), SASL_HANDSHAKE: (1, 1), SASL_AUTHENTICATE: (0, 1), API_VERSIONS: (0, 0)}


@dataclass(slots=True)
class Conversation:
    """One connection: the keys of its requests, and a way to write to it."""

    writer: asyncio.StreamWriter
    requests: list[tuple[int, int]] = field(default_factory=list)

    def answer(self, correlation_id: int, body: bytes) -> None:
        self.send(correlation_id.to_bytes(4, "big") + body)

    def send(self, frame: bytes) -> None:
        self.writer.write(len(frame).to_bytes(4, "big") + frame)


Answer = Callable[[Conversation, int, int], None]
"""A script for (conversation, API key, correlation id) of a request other than authentication."""


class ScriptedBroker:
    """lifetime_ms: of SASL sessions. refuses: closes connections as soon as they are made."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.conversations: list[Conversation] = []
        self.lifetime_ms = 0
        self.refuses = False
        self.accepted = 0
        self.port = 0
        self.arrived = asyncio.Condition()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20), self.arrived:
            await self.arrived.wait_for(condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.refuses:
            writer.close()
            return
        conversation = Conversation(writer)
        self.conversations.append(conversation)
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                key, version, correlation_id = _START.unpack_from(frame)
                conversation.requests.append((key, version))
                self._take(conversation, key, version, correlation_id)
                async with self.arrived:
                    self.arrived.notify_all()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    def _take(self, conversation: Conversation, key: int, version: int, correlation_id: int) -> None:
        match key:
            case 18:
                served = b"".join(Struct(">hhh").pack(key, *versions) for key, versions in _SERVED.items())
                conversation.answer(correlation_id, b"\0\0" + len(_SERVED).to_bytes(4, "big") + served)
            case 17:
                conversation.answer(correlation_id, b"\0\0" + bytes(4))
            case 36:
                lifetime = self.lifetime_ms.to_bytes(8, "big") if version else b""
                conversation.answer(correlation_id, b"\0\0\xff\xff" + bytes(4) + lifetime)
            case _:
                self.answer(conversation, key, correlation_id)


@asynccontextmanager
async def scripted_broker(answer: Answer) -> AsyncIterator[ScriptedBroker]:
    broker = ScriptedBroker(answer)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.port = server.sockets[0].getsockname()[1]
    try:
        yield broker
    finally:
        server.close()
        for conversation in broker.conversations:
            conversation.writer.close()

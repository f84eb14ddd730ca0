"""Requests and answers as bytes, without a client."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from mesh.wire.frames import FrameSplitter
from tests.wire.entities import frame

_LIMIT = 2**26


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """An address to connect to."""

    host: str
    port: int

    @classmethod
    def of(cls, address: str) -> Endpoint:
        """The endpoint of `host:port`."""
        host, _, port = address.rpartition(":")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class RawConnection:
    """Connections to one address, one at a time: when the other side has closed one, the next request opens another."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._socket: socket.socket | None = None
        self._splitter = FrameSplitter(_LIMIT)
        self._answers: list[bytes] = []
        self.was_reset = False
        """True if the last closed connection ended with a reset."""

    def ask(self, request: bytes) -> bytes | None:
        """The answer to a request without its frame length; None if the connection is closed instead."""
        self.tell(frame(request))
        return self.answer()

    def tell(self, frames: bytes) -> None:
        """Sends requests, on the existing connection or on a new one."""
        if self._socket is None:
            self._socket = socket.create_connection((self._endpoint.host, self._endpoint.port), timeout=30)
            self._splitter, self._answers = FrameSplitter(_LIMIT), []
        self._socket.sendall(frames)

    def answer(self) -> bytes | None:
        """The next answer without its frame length; None if the connection is closed instead."""
        while not self._answers:
            data = self._received()
            if not data:
                self.close()
                return None
            self._answers += [bytes(each) for each in self._splitter.receive_data(data)]
        return self._answers.pop(0)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _received(self) -> bytes:
        assert self._socket is not None
        self.was_reset = False
        try:
            return self._socket.recv(2**16)
        except ConnectionResetError:
            self.was_reset = True
            return b""

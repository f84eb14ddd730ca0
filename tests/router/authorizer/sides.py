"""The same request to a broker and to a mesh, and the answers of both about every entity."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from struct import pack, unpack
from typing import Any, Final

from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree, read_tree, write_tree

PASSWORD: Final = "sesam"
Told = set[tuple[str, str, int]]
"""The subject of a code, its name and its value; a listed entity has one, too."""

_NAMES: Final = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "key",
    "transactional_id",
    "resource_name",
    "partition_index",
)


class Client:
    """Connections of one client: a new one after each that was closed. user: None for a client that does not log in."""

    def __init__(self, address: str, user: str | None) -> None:
        self._address, self._user = address, user
        self._socket: socket.socket | None = None

    def ask(self, api_key: ApiKey, version: int, request: Tree) -> Tree | None:
        """The answer; None: the connection was closed."""
        try:
            self._socket = self._socket or self._connected()
            return self._asked(self._socket, api_key, version, request)
        except (EOFError, ConnectionError):
            self.close()
            return None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        host, port = self._address.split(":")
        made = socket.create_connection((host, int(port)), timeout=30)
        if self._user is None:
            return made
        self._asked(made, ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        token = f"\0{self._user}\0{PASSWORD}".encode()
        answer = self._asked(made, ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": token})
        assert answer["error_code"] == 0, answer
        return made

    @staticmethod
    def _asked(connection: socket.socket, api_key: ApiKey, version: int, request: Tree) -> Tree:
        body = write_tree(api_key, version, Direction.REQUEST, request)
        head = pack(">hhih", api_key, version, 1, 4) + b"test" + (b"\0" if is_flexible(api_key, version) else b"")
        connection.sendall(pack(">i", len(head) + len(body)) + head + body)
        (size,) = unpack(">i", _read(connection, 4))
        answer = _read(connection, size)
        return read_tree(
            api_key, version, Direction.RESPONSE, answer[4 + has_tagged_response_header(api_key, version) :]
        )


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := connection.recv(size - len(data))):
            raise EOFError
        data += more
    return data


def told(answer: Tree | None) -> Told:
    """The contents of an answer: each entity, and its error codes and authorized operations."""
    return {("", "closed", 0)} if answer is None else set(_told(answer, ""))


def _told(tree: Any, about: str) -> Iterator[tuple[str, str, int]]:
    if isinstance(tree, list):
        for each in tree:
            yield from _told(each, about)
        return
    if not isinstance(tree, dict):
        return
    names = [str(tree[key]) for key in _NAMES if tree.get(key) is not None]
    if "topic_id" in tree and len(names) > 1:  # a named topic may have a new id, or none in the answer
        names.remove(str(tree["topic_id"]))
    if names:
        about = "/".join([about, *names])
        yield about, "is there", 0
    for key, value in tree.items():
        if key.endswith(("error_code", "authorized_operations")):
            yield about, key, value
        else:
            yield from _told(value, about)

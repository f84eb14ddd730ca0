"""Requests for which a broker closes the connection."""

from __future__ import annotations

from mesh.wire.apis import ApiKey
from tests.relay.requests import request
from tests.relay.sides import Side
from tests.wire.entities import frame

_METADATA = frame(request(ApiKey.METADATA, 12, {"topics": []}))
_HUGE = 1 << 30


def _head(api_key: int, version: int) -> bytes:
    return api_key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + (7).to_bytes(4, "big") + b"\0\1c\0"


REFUSED = {
    "a version too high": frame(_head(ApiKey.METADATA, 99) + bytes(8)),
    "a version too low": frame(_head(ApiKey.FETCH, 3) + bytes(40)),
    "a negative version": frame(_head(ApiKey.METADATA, -1) + bytes(8)),
    "an API that nobody knows": frame(_head(999, 0)),
    "an API of controllers": frame(_head(52, 0) + bytes(8)),
    "a request that is cut off": frame(_head(ApiKey.METADATA, 12) + b"\0"),
    "a header that is cut off": frame(b"\0\3\0"),
    "nothing": frame(b""),
    "a negative length": b"\xff\xff\xff\xff",
    "a huge length": _HUGE.to_bytes(4, "big"),
    "no Kafka": b"GET / HTTP/1.1\r\n\r\n",
}
"""Bytes in place of a request. All end the connection."""


def ask_refused(what: str, side: Side) -> None:
    """Sends it alone, and behind a request that is answered first."""
    for before in (b"", _METADATA):
        side.tell(before + REFUSED[what], "metadata", 12)


def ask_too_new(side: Side, version: int) -> None:
    """A broker answers ApiVersions even in an unknown version: with the error, and the versions that it knows."""
    side.ask_bytes("api_versions", 0, _head(ApiKey.API_VERSIONS, version) + b"\2c\2c\0")

"""Compressed bodies: every codec, as Java and as librdkafka write it; damaged ones are refused within bounds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from struct import pack

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.records import compression
from mesh.records.compression import CorruptBody, decompress

BODY = bytes(range(256)) * 40


def xerial(body: bytes) -> bytes:
    """The stream that Java's snappy writes: a header, then blocks with their lengths."""
    blocks = [body[at : at + 4_000] for at in range(0, len(body), 4_000)]
    packed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return b"\x82SNAPPY\0" + pack(">ii", 1, 1) + b"".join(pack(">i", len(block)) + block for block in packed)


PACK: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, bytes),
    "gzip": (1, lambda body: bytes(cramjam.gzip.compress(body))),
    "snappy": (2, lambda body: bytes(cramjam.snappy.compress_raw(body))),
    "xerial": (2, xerial),
    "lz4": (3, lambda body: bytes(cramjam.lz4.compress(body))),
    "zstd": (4, lambda body: bytes(cramjam.zstd.compress(body))),
}


@pytest.mark.parametrize("name", PACK)
@pytest.mark.parametrize("body", [b"", b"x", BODY, bytes(3 << 20)], ids=["empty", "one", "some", "large"])
def test_what_was_packed_is_unpacked(name: str, body: bytes) -> None:
    codec, compress = PACK[name]
    assert decompress(codec, compress(body)) == body


@pytest.mark.parametrize("name", [name for name in PACK if name != "none"])
def test_what_unpacks_to_too_much_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LARGEST_BODY", len(BODY) - 1)
    codec, compress = PACK[name]
    with pytest.raises(CorruptBody):
        decompress(codec, compress(BODY))


@given(st.sampled_from([name for name in PACK if name != "none"]), st.data())
def test_damage_is_refused_or_read_and_raises_nothing_else(name: str, data: st.DataObject) -> None:
    codec, compress = PACK[name]
    packed = bytearray(compress(BODY[:600]))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptBody):
        decompress(codec, bytes(packed[: data.draw(st.integers(0, len(packed)))]))


def test_there_is_no_fifth_codec() -> None:
    with pytest.raises(CorruptBody, match="no compression 5"):
        decompress(5, b"")

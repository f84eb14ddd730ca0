"""Compresses and decompresses the bodies of batches, with all codecs of record format 2, as Kafka and its clients
do."""

from __future__ import annotations

from struct import Struct
from typing import Final, Protocol

import cramjam

LARGEST_BODY: Final = 64 << 20
"""The most bytes of a decompressed body. Larger ones are refused, and no more is allocated, whatever their header
says."""
_USUAL_RATIO: Final = 8
_SMALLEST: Final = 64 << 10
_GROWTH: Final = 8
_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = 16
_XERIAL_VERSIONS: Final = b"\0\0\0\1\0\0\0\1"
_XERIAL_BLOCK: Final = 32 << 10
_GZIP_LEVEL: Final = 6
_LZ4_LEVEL: Final = 1
_ZSTD_LEVEL: Final = 3
_BLOCK_LENGTH: Final = Struct(">I")


class CorruptBody(ValueError):
    """Raised for a body that cannot be decompressed, or is larger than LARGEST_BODY then."""


class _Unpack(Protocol):
    def __call__(self, input: bytes, output: bytearray, /) -> int: ...


def decompress(codec: int, packed: bytes) -> bytes:
    """Decompresses the body of a batch. codec: bits 0-2 of its attributes (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd).
    Raises CorruptBody."""
    match codec:
        case 0:
            return packed
        case 1:
            return _unpack(cramjam.gzip.decompress_into, packed)
        case 2:
            return _snappy(packed)
        case 3:
            return _unpack(cramjam.lz4.decompress_into, packed)
        case 4:
            return _unpack(cramjam.zstd.decompress_into, packed)
        case _:
            raise CorruptBody(f"there is no compression {codec}")


def compress(codec: int, body: bytes) -> bytes:
    """Compresses the body of a batch, in the form that every client reads: snappy as Java's stream, lz4 in independent
    blocks, which Java requires (KIP-57). Raises ValueError for an unknown codec."""
    match codec:
        case 0:
            return body
        case 1:
            return bytes(cramjam.gzip.compress(body, level=_GZIP_LEVEL))
        case 2:
            return _snappy_stream(body)
        case 3:
            compressor = cramjam.lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
            compressor.compress(body)
            return bytes(compressor.finish())
        case 4:
            return bytes(cramjam.zstd.compress(body, level=_ZSTD_LEVEL))
        case _:
            raise ValueError(f"there is no compression {codec}")


def _snappy_stream(body: bytes) -> bytes:
    stream, view = bytearray(_XERIAL_MAGIC + _XERIAL_VERSIONS), memoryview(body)
    for at in range(0, len(body), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK]))
        stream += _BLOCK_LENGTH.pack(len(block))
        stream += block
    return bytes(stream)


def _unpack(unpack: _Unpack, packed: bytes) -> bytes:
    size = min(max(len(packed) * _USUAL_RATIO, _SMALLEST), LARGEST_BODY)
    while True:
        body = bytearray(size)
        try:
            return bytes(memoryview(body)[: unpack(packed, body)])
        except cramjam.DecompressionError as problem:
            # The library reports the same for truncated data and for a buffer that is too small.
            if size == LARGEST_BODY:
                raise CorruptBody(str(problem)) from problem
            size = min(size * _GROWTH, LARGEST_BODY)


def _snappy(packed: bytes) -> bytes:
    """Decompresses snappy. Java's streams have a header and blocks; those of librdkafka and others are one block."""
    if not packed.startswith(_XERIAL_MAGIC):
        return _snappy_block(packed, LARGEST_BODY)
    body = bytearray()
    position = _XERIAL_HEADER
    while position < len(packed):
        if position + _BLOCK_LENGTH.size > len(packed):
            raise CorruptBody("a snappy stream ends in the length of a block")
        (length,) = _BLOCK_LENGTH.unpack_from(packed, position)
        position += _BLOCK_LENGTH.size
        if position + length > len(packed):
            raise CorruptBody(f"a snappy block of {length} bytes ends beyond its batch")
        body += _snappy_block(packed[position : position + length], LARGEST_BODY - len(body))
        position += length
    return bytes(body)


def _snappy_block(block: bytes, limit: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > limit:
            raise CorruptBody(f"{size} bytes in one batch")
        body = bytearray(size)
        return bytes(memoryview(body)[: cramjam.snappy.decompress_raw_into(block, body)])
    except cramjam.DecompressionError as problem:
        raise CorruptBody(str(problem)) from problem

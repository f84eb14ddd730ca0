"""Batches as librdkafka 2.16 wrote them into the log of an Apache Kafka 4.3."""

from __future__ import annotations

from mesh.records.encode import PlainRecord

PLAIN = bytes.fromhex(
    "0000000000000000 00000061 00000000 02 f3e53977"  # base offset, length, leader epoch, magic, CRC
    "0000 00000002 0000018bcfe56800 0000018bcfe56805"  # attributes, last offset delta, first and highest timestamp
    "ffffffffffffffff ffff ffffffff 00000003"  # producer id and epoch, base sequence, record count
    "3e 00 00 00 04 6b31 0a 6669727374"  # length, attributes, time and offset delta, key k1, value first
    "06 0a 7472616365 02 31  0a 7472616365 01  02 65 00"  # three headers: trace=1, trace=null, e=empty
    "10 00 0a 02 04 6b32 01 00"  # 5 ms later: key k2, no value
    "0c 00 01 04 01 00 00"  # 1 ms earlier: no key, an empty value
)
"""Three records: headers with a repeated name, null and empty; no value; no key; a decreasing timestamp."""

APPENDED = bytes.fromhex(
    "0000000000000000 00000061 00000000 02 ae55a059"
    "0008 00000002 0000018bcfe56800 000001a1fd56097f"
    "ffffffffffffffff ffff ffffffff 00000003"
    "3e 00 00 00 04 6b31 0a 6669727374"
    "06 0a 7472616365 02 31  0a 7472616365 01  02 65 00"
    "10 00 0a 02 04 6b32 01 00"
    "0c 00 01 04 01 00 00"
)
"""The same records in a topic with message.timestamp.type=LogAppendTime."""

RECORDS: list[PlainRecord] = [
    (0, 1700000000000, b"k1", b"first", [("trace", b"1"), ("trace", None), ("e", b"")]),
    (1, 1700000000005, b"k2", None, []),
    (2, 1699999999999, None, b"", []),
]
APPEND_TIMESTAMP = 0x1A1FD56097F

GZIP = bytes.fromhex(
    "00000000000000000000008500000000025a3d0e490001000000070000018bcfe568000000018bcfe56807ffffffffffffffffffffffffffff00000008"
    "1f8b08000000000000037363606060cab628c94855284ecc4d5528cf2f4a2956c82f4b2d5248cc4b013318dc18989808ab61"
    "6121ac868d8db01a0e0ec26ab8b808abe1e121ac868f8f901a00f5782e4620010000"
)
"""Eight records, one a millisecond: key k, value REPEATED."""
REPEATED = b"the same words over and over"

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from mesh.config.values import (
    Address,
    format_duration,
    format_send_buffer,
    format_size,
    parse_address,
    parse_send_buffer,
)
from mesh.quantities import parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200ms", 0.2), ("3s", 3), ("5m", 300), ("1h", 3_600), ("1.5 s", 1.5), (7, 7), (0.25, 0.25), ("7", 7)],
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4MiB", 4 << 20), ("64MB", 64_000_000), ("512KiB", 512 << 10), ("1GiB", 1 << 30), ("12B", 12), (99, 99)],
)
def test_sizes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "value", ["", "s", "-1s", "3 weeks", "1e3s", "3S", True, None, [3], float("inf"), float("nan"), 10**400, "9" * 400]
)
def test_no_durations(value: object) -> None:
    with pytest.raises(PydanticCustomError, match="a duration like"):
        parse_duration(value)


@pytest.mark.parametrize("value", ["4mib", "4 M", "", False, None, {}, "9" * 400 + "MiB"])
def test_no_sizes(value: object) -> None:
    with pytest.raises(PydanticCustomError, match="a size like"):
        parse_size(value)


@given(st.none() | st.integers(1, 2**30))
def test_a_send_buffer_survives_its_text(size: int | None) -> None:
    assert parse_send_buffer(format_send_buffer(size)) == size


@pytest.mark.parametrize("value", ["System", "", None, "256kb"])
def test_no_send_buffers(value: object) -> None:
    with pytest.raises(PydanticCustomError, match="a size like 256KiB, or system"):
        parse_send_buffer(value)


@given(st.integers(1, 86_400_000))
def test_a_duration_survives_its_text(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


@given(st.integers(1, 2**40))
def test_a_size_survives_its_text(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", Address("127.0.0.1", 9092)),
        ("mesh.example.com:1", Address("mesh.example.com", 1)),
        ("[::1]:65535", Address("::1", 65535)),
        ("[fe80::1%eth0]:1", Address("fe80::1%eth0", 1)),
        ("bücher.example.:1", Address("bücher.example.", 1)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "value",
    [
        "",
        "9092",
        ":9092",
        "host",
        "host:",
        "host:0",
        "host:65536",
        "host:notaport",
        "::1:9092",
        "[host]:1",
        "a b:1",
        "a\0b:1",
        "a..b:1",
        f"{'a' * 64}:1",
        "\udcff:1",
        9092,
    ],
)
def test_no_addresses(value: object) -> None:
    with pytest.raises(PydanticCustomError, match="HOST:PORT"):
        parse_address(value)


def test_addresses_nobody_can_connect_to() -> None:
    assert parse_address("0.0.0.0:1").is_wildcard
    assert parse_address("[::]:1").is_wildcard
    assert not parse_address("[::1]:1").is_wildcard

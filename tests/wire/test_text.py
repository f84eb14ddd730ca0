"""Bytes that are not UTF-8 become the characters that Java reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.wire.text import text_of


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"a\xed\xa0\x80b", "a\ufffdb"),
        (b"a\xed\xa0", "a\ufffd"),
        (b"\xed\xa0b", "\ufffdb"),
        (b"\xed\xa0\x80\xed\xb0\x80", "\ufffd\ufffd"),
        (b"\xed", "\ufffd"),
        (b"\xf0\x80\x80\x80", "\ufffd" * 4),
        (b"\xe0\x80\x80", "\ufffd" * 3),
        (b"\xf0\x9f\x98a", "\ufffda"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_golden(content: bytes, text: str) -> None:
    assert text_of(content) == text_of(memoryview(content)) == text


@given(st.text())
def test_any_text_stays(text: str) -> None:
    assert text_of(text.encode()) == text


@given(st.binary())
def test_any_bytes_become_text(content: bytes) -> None:
    assert text_of(content).encode().decode() == text_of(content)

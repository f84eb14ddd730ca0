"""Records in the form that an operator sees."""

from __future__ import annotations

from typing import Any

import pytest

from mesh.admin.shown_records import may_be_shown, shown
from mesh.config.model import Look
from mesh.records.decode import DecodedRecord


def record(value: bytes | None, key: bytes | None = None, **headers: bytes | None) -> DecodedRecord:
    return DecodedRecord(7, 1_000, False, key, value, tuple(headers.items()))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, None),
        (b"", {"size": 0, "text": ""}),
        (b"caf\xc3\xa9\n", {"size": 6, "text": "café\n"}),
        (b"\x00\x01", {"size": 2, "hex": "0001"}),
        (b"\xff", {"size": 1, "hex": "ff"}),
        (b'{"a": [1]}', {"size": 10, "text": '{"a": [1]}', "json": {"a": [1]}}),
        (b"{broken", {"size": 7, "text": "{broken"}),
    ],
)
def test_bytes_are_shown_as_what_they_are(data: bytes | None, expected: object) -> None:
    assert shown(record(data), Look())["value"] == expected


def test_what_is_long_is_cut_between_characters() -> None:
    found = shown(record("ééé".encode()), Look(most=3))["value"]
    assert found == {"size": 6, "cut": True, "text": "é"}
    assert shown(record(b"\x00" * 10), Look(most=4))["value"] == {"size": 10, "cut": True, "hex": "00000000"}


def test_what_is_hidden_is_not_there() -> None:
    look = Look(hide=("keys",), hide_headers=("pass*",), mask_paths=("card.number",))
    value = b'{"card": {"number": "4111", "name": "A"}}'
    found: dict[str, Any] = shown(record(value, b"4111", password=b"4111", trace=b"t"), look)
    assert "4111" not in str(found)
    assert found["value"]["json"] == {"card": {"number": "****", "name": "A"}}
    assert found["headers"] == [
        {"name": "password", "value": {"hidden": True}},
        {"name": "trace", "value": {"size": 1, "text": "t"}},
    ]


def test_what_cannot_be_masked_is_hidden() -> None:
    found = shown(record(b"card 4111"), Look(mask_paths=("card",)))["value"]
    assert found == {"hidden": True, "size": 9, "reason": "not JSON, and mask_paths is set"}
    assert shown(record(None), Look(mask_paths=("card",)))["value"] is None


def test_a_record_without_a_timestamp() -> None:
    found = shown(DecodedRecord(1, -1, False, None, b"", ()), Look())
    assert found["timestamp"] is None


def test_topics_are_chosen_by_patterns() -> None:
    look = Look(topics=("orders*",))
    assert may_be_shown("orders-1", look)
    assert not may_be_shown("salaries", look)

"""A record as an operator sees it: as text, JSON or hexadecimal digits, without the parts that `admin.look` hides."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Final

from mesh.config.model import Look
from mesh.interceptors.shipped.mask import Mask, MaskConfig
from mesh.records.decode import DecodedRecord

HIDDEN: Final[dict[str, Any]] = {"hidden": True}


def shown(record: DecodedRecord, look: Look) -> dict[str, Any]:
    """Returns a record as JSON, with the keys offset, timestamp (milliseconds, null for none), key, value and headers.
    Bytes are an object: `size`, and the first possible of `json`, `text` or `hex`; `cut` marks a shortened one."""
    return {
        "offset": record.offset,
        "timestamp": record.timestamp if record.timestamp >= 0 else None,
        "key": _part(record.key, "keys", look),
        "value": _value(record.value, look),
        "headers": [
            {"name": name, "value": HIDDEN if _matches(name, look.hide_headers) else _part(value, "headers", look)}
            for name, value in record.headers
        ],
    }


def may_be_shown(topic: str, look: Look) -> bool:
    return _matches(topic, look.topics)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _part(data: bytes | None, name: str, look: Look) -> dict[str, Any] | None:
    return HIDDEN if name in look.hide and data is not None else _bytes(data, look.most)


def _value(value: bytes | None, look: Look) -> dict[str, Any] | None:
    if value is None or "values" in look.hide or not look.mask_paths:
        return _part(value, "values", look)
    try:
        masked = Mask(MaskConfig(paths=look.mask_paths)).masked(value)
    except ValueError:
        return {**HIDDEN, "size": len(value), "reason": "not JSON, and mask_paths is set"}
    return _bytes(value if masked is None else masked, look.most)


def _bytes(data: bytes | None, most: int) -> dict[str, Any] | None:
    if data is None:
        return None
    body: dict[str, Any] = {"size": len(data)}
    part = data[:most]
    if len(data) > most:
        body["cut"] = True
    text = _text_of(part, is_cut="cut" in body)
    if text is None or not all(each.isprintable() or each in "\n\r\t" for each in text):
        return {**body, "hex": part.hex()}
    if "cut" not in body and text[:1] in {"{", "["}:
        try:
            return {**body, "json": json.loads(text), "text": text}
        except ValueError:
            pass
    return {**body, "text": text}


def _text_of(part: bytes, is_cut: bool) -> str | None:
    """Decodes UTF-8; None if the bytes are not UTF-8. is_cut: whether the last character may be incomplete."""
    for end in range(len(part), max(len(part) - 4, 0) if is_cut else len(part) - 1, -1):
        try:
            return part[:end].decode()
        except UnicodeDecodeError:
            continue
    return None

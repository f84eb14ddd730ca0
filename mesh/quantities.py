"""Parses durations and sizes of a configuration."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from pydantic_core import PydanticCustomError

_QUANTITY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
BYTES: Final = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_LARGEST: Final = 1e18
"""A value far above all limits. Values above it are infinite, or errors."""


def parse_duration(value: object) -> float:
    """Returns a duration in seconds. Raises PydanticCustomError for anything but a number, or a number with a unit of
    time."""
    return quantity(value, _SECONDS, "a duration like 200ms, 3s, 5m or 1h, or a number of seconds")


def parse_size(value: object) -> int:
    """Returns a size in whole bytes. Raises PydanticCustomError for anything but a number, or a number with a unit of
    bytes."""
    return round(quantity(value, BYTES, "a size like 4MiB, 64MB or 512KiB, or a number of bytes"))


def quantity(value: object, units: Mapping[str, float], allowed: str) -> float:
    """Returns a number with one of these units. Raises PydanticCustomError with the allowed form for anything else."""
    number = math.inf
    match value:
        case bool():
            pass
        case int() | float():
            number = value
        case str() if (parts := _QUANTITY.fullmatch(value)) and (parts[2] in units or not parts[2]):
            number = float(parts[1]) * units.get(parts[2], 1)
    if abs(number) < _LARGEST:
        return number
    raise PydanticCustomError("quantity", "{allowed}", {"allowed": allowed})

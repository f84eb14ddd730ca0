"""Finds the error in a response, for metrics."""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache
from typing import Any

from mesh.wire.errors import ErrorCode
from mesh.wire.messages import FetchResponse, ResponseMessage
from mesh.wire.schema import field_types


def error_of(response: ResponseMessage) -> ErrorCode:
    """Returns the error of a response: its own, or the first one of its parts."""
    if isinstance(response, FetchResponse):  # the hot path, with most of the traffic
        if response.error_code is not ErrorCode.NONE:
            return response.error_code
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code is not ErrorCode.NONE:
                    return partition.error_code
        return ErrorCode.NONE
    return _first_error(response)


def _first_error(part: Any) -> ErrorCode:
    has_error, parts = _layout(part.__class__)
    if has_error and part.error_code is not ErrorCode.NONE:
        return ErrorCode(part.error_code)
    for name in parts:
        for inner in getattr(part, name):
            error = _first_error(inner)
            if error is not ErrorCode.NONE:
                return error
    return ErrorCode.NONE


@cache
def _layout(message: type) -> tuple[bool, tuple[str, ...]]:
    """The layout of a message class: whether it has an error, and which of its fields hold parts that may have one."""
    types = field_types(message)
    parts = (name for name, field in types.items() if field.is_array and is_dataclass(field.item))
    kinds = tuple(name for name in parts if any(_layout(types[name].item)))
    return "error_code" in types, kinds

"""Requests that wait for their answers, and what answers them, whatever the target."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NewType, TypeAlias

ConnectionId = NewType("ConnectionId", int)
Ticket: TypeAlias = Hashable
"""Names a request that waits for its answer; opaque to whoever decides about it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a request. `result` is one of the result types of its target; the request's API puts it into words."""

    ticket: Ticket
    result: object

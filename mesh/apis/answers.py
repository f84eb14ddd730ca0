"""Requests that wait for their answers, and the answers, for every kind of target."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NewType, TypeAlias

ConnectionId = NewType("ConnectionId", int)
Ticket: TypeAlias = Hashable
"""Identifies a request that waits for its answer. Code that decides about the request does not look into it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The effect that answers a request. result: one of the result types of its target. The API of the request makes
    the response of it."""

    ticket: Ticket
    result: object

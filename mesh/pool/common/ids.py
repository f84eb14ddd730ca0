"""What groups, members, connections and requests are called in the decisions of a pool."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NewType, TypeAlias

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
ConnectionId = NewType("ConnectionId", int)
Ticket: TypeAlias = Hashable
"""Names a request that waits for its answer; opaque to the pool."""

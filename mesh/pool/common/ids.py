"""What groups and members are called in the decisions of a pool."""

from __future__ import annotations

from typing import NewType

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)

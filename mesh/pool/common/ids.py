"""The ids of groups and members."""

from __future__ import annotations

from typing import NewType

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)

"""Weights and priorities of members: some get more than others, or get records first.

A weight divides records while members wait for them: a member with twice the weight gets twice as much. A priority
comes before everything else. Neither holds a member back while no other member takes the records.
"""

from __future__ import annotations

import math
from collections.abc import Set

from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.sharing import Sharing
from mesh.pool.state.member import Member


class Weights:
    """The weights and priorities of the members of one pool."""

    def __init__(self, parts: PoolParts, members: Set[Member]) -> None:
        """members: the living members that have asked for records."""
        self._members = members
        self._sharing = parts.settings.sharing
        self.are_used = bool(self._sharing.weights)
        self._totals: dict[int, float] = {}
        """For each priority, the sum of the weights of all members with it or a higher one; empty if unknown."""

    def change(self, sharing: Sharing) -> bool:
        """Applies changed weights. Returns whether the ranks of members change."""
        if sharing.weights == self._sharing.weights:
            return False
        self._sharing = sharing
        self.are_used = bool(sharing.weights)
        for member in self._members:
            self._set_weight(member)
        return True

    def joined(self, member: Member) -> None:
        if self.are_used:
            self._set_weight(member)

    def left(self) -> None:
        self._totals.clear()

    def weighted_share(self, equal: int, member: Member) -> int:
        """Returns the part of a member in place of an equal part. Nothing is left for lower priorities if it and others
        of its priority can take everything."""
        weight, priority = (
            (1.0, 0) if member.preference is None else (member.preference.weight, member.preference.priority)
        )
        total = (self._totals or self._summed())[priority]
        return max(math.ceil(equal * len(self._members) * weight / total), 1)

    def _summed(self) -> dict[int, float]:
        each = [(member.preference.priority, member.preference.weight) for member in self._members if member.preference]
        each += [(0, 1.0)] * (len(self._members) - len(each))
        self._totals = {
            priority: sum(weight for other, weight in each if other >= priority) for priority in {p for p, _ in each}
        }
        return self._totals

    def _set_weight(self, member: Member) -> None:
        rule = self._sharing.weight_of(member.client)
        member.prefer(None if rule is None else (rule.weight, rule.priority))
        self._totals.clear()

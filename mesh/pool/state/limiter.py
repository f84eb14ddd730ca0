"""The current state of a limit: how much more its members may get now. Times are in seconds, amounts in offsets or
bytes."""

from __future__ import annotations

from typing import Final

from mesh.pool.common.sharing import LimitRule

AT_ONCE: Final = 1.0
"""Seconds' worth of the rate that may be given at once after a pause."""
PIECE: Final = 0.1
"""Seconds' worth of the rate that must be available before more is given. So a limit costs ten answers a second,
instead of one for each record."""
MOST_CREDIT: Final = 500.0
"""The most offsets of credit. A member that comes back after an hour does not get the share of that hour."""
_ROUNDING: Final = 1e-9


class Bucket:
    """A token bucket. More tokens may be taken than there are; then the wait is longer."""

    __slots__ = ("_at", "_most", "_piece", "_rate", "tokens")

    def __init__(self, rate: float, now: float) -> None:
        """rate: tokens a second."""
        self._rate = rate
        self._most = max(rate * AT_ONCE, 1.0)
        self._piece = max(rate * PIECE, 1.0)
        self.tokens = self._most
        self._at = now

    def refill(self, now: float) -> None:
        self.tokens = min(self.tokens + (now - self._at) * self._rate, self._most)
        self._at = now

    @property
    def ready_at(self) -> float:
        """The time from which there are enough tokens to go on."""
        return self._at + max(self._piece - self.tokens, 0.0) / self._rate


class Limiter:
    """The state of one limit, for all of its members together or for one of them.

    * is_exhausted: whether nothing more may be given for now.
    * held: the offsets that the members hold.
    * credit: the offsets that the rule's share may still get.
    """

    __slots__ = ("_buckets", "byte_bucket", "credit", "held", "is_exhausted", "record_bucket", "rule")

    def __init__(self, rule: LimitRule, now: float) -> None:
        self.rule = rule
        self.record_bucket = Bucket(rule.records_per_second, now) if rule.records_per_second is not None else None
        self.byte_bucket = Bucket(rule.bytes_per_second, now) if rule.bytes_per_second is not None else None
        self._buckets = tuple(each for each in (self.record_bucket, self.byte_bucket) if each is not None)
        self.held = 0
        self.credit = 0.0
        self.is_exhausted = False

    def took(self, count: int, size: int, now: float, *, has_others: bool) -> None:
        """Takes tokens for records that were given. has_others: as in `room`. Without others, the credit does not
        change."""
        for bucket in self._buckets:
            bucket.refill(now)
        if self.record_bucket is not None:
            self.record_bucket.tokens -= count
        if self.byte_bucket is not None:
            self.byte_bucket.tokens -= size
        self.held += count
        if has_others:
            self.credit -= count

    def others_took(self, count: int) -> None:
        share = self.rule.share or 0.0
        self.credit = min(self.credit + count * share / (1.0 - share), MOST_CREDIT)

    def room(self, now: float, *, has_others: bool) -> float:
        """Returns the number of offsets that may be given now; none if below 1. has_others: whether there are members
        that the rule does not match."""
        room = float("inf")
        for bucket in self._buckets:
            bucket.refill(now)
        if self.record_bucket is not None:
            room = self.record_bucket.tokens
        if self.byte_bucket is not None and self.byte_bucket.tokens < 1.0:
            return 0.0
        if self.rule.in_flight is not None:
            room = min(room, self.rule.in_flight - self.held)
        if self.rule.share is not None and has_others:
            room = min(room, self.credit)
        return room + _ROUNDING

    def ready_at(self, now: float) -> float:
        """Returns the time from which its buckets have enough tokens again. `now` if they have enough, or it has no
        buckets."""
        return max((each.ready_at for each in self._buckets), default=now)

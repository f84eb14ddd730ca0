"""The flow control of a member: how many records it may hold unacknowledged, and how loaded it is. Both follow its
commits.

A client that commits every five seconds holds thousands of records that it has long processed. A client that commits
after every poll holds none. So neither the number held nor a constant shows whether a member is busy. The cap is about
what the member processes in two commit intervals. The load is what it holds beyond that
(docs/decisions/0005-windows-are-learnt-from-commits.md).
"""

from __future__ import annotations

import math

FULL_AND_ALONE = 1.0
"""Seconds with a full window after which the cap doubles, if no member below its cap waits."""
FULL_ANYHOW = 5.0
"""Seconds with a full window after which the cap doubles in any case: a client may commit every N records."""
QUICK_DOUBLINGS = 2
"""The number of doublings after FULL_AND_ALONE without a commit. Later ones take FULL_ANYHOW, and each twice as long as
the one before. So a member that never commits does not take everything from busy members. The first doubling comes
before any client can commit, so it is always granted."""
SHORTEST_SUPPLY = 1.0
"""Seconds of work that a member may always hold, however often it commits. A Fetch for every few records would slow it
down."""
USUAL = 0.75
"""The part of its cap up to which a member does not count as loaded. A cap is worth two commit intervals, so a member
that keeps up holds at most half of it. The rest leaves room for growth."""
OVERDUE = 15.0
"""Seconds after its first record by which a member should have committed: three times the usual commit interval."""
FIRST_TRIAL = 0.1
"""Seconds with a full window before it first grows beside other members. A member that commits after every poll has
committed by then (docs/decisions/0043)."""
SMALLEST_WINDOW = 10
"""The smallest cap, in offsets. A very slow member gets batches cut to this size."""


class Flow:
    """The window cap and the commit rate of one member. Times are in seconds, amounts in offsets."""

    __slots__ = (
        "_committed_at",
        "_doublings",
        "_first_sent_at",
        "_full_since",
        "_granted",
        "_interval",
        "_is_slow",
        "_limited_since",
        "_maximum",
        "_rate",
        "_was_full",
        "_was_reported",
        "cap",
    )

    def __init__(self, initial: int, maximum: int) -> None:
        self.cap = initial
        self._maximum = maximum
        self._is_slow = False
        self._first_sent_at: float | None = None
        self._committed_at: float | None = None
        self._interval = 0.0
        self._rate = 0.0
        self._full_since: float | None = None
        self._was_full = False
        self._doublings = 0
        self._was_reported = False
        self._limited_since: float | None = None
        """Since when its full window has limited it."""
        self._granted = 0

    @property
    def committed_at(self) -> float | None:
        """The time of its last commit that settled something; None if there was none."""
        return self._committed_at

    @property
    def never_committed(self) -> bool:
        return self._committed_at is None

    @property
    def pace(self) -> float:
        """The offsets a second that the member processes, according to its last commits."""
        return self._rate

    def sent(self, now: float) -> None:
        if self._first_sent_at is None:
            self._first_sent_at = now

    def granted_without_cap(self, in_flight: int) -> None:
        """Notes that the member was given `in_flight` offsets while it had no cap."""
        self._granted = in_flight
        self.cap = max(self.cap, min(in_flight, self._maximum))

    def take_overdue(self, now: float) -> bool:
        """Returns whether any client that commits at all would have done so by now. Returns True only once."""
        first = self._first_sent_at
        overdue = self._committed_at is None and first is not None and now - first >= OVERDUE and not self._was_reported
        self._was_reported = self._was_reported or overdue
        return overdue

    @property
    def was_overdue(self) -> bool:
        """True if `take_overdue` has returned True, and the member has not committed since."""
        return self._was_reported and self.never_committed

    def load(self, in_flight: int, now: float) -> float:
        """Returns the load of a member: the offsets in flight beyond its usual number. 0 if it cannot have committed
        yet."""
        if self._committed_at is None and (self._first_sent_at is None or now - self._first_sent_at < FULL_ANYHOW):
            return 0.0
        return max(0.0, in_flight - USUAL * self.cap)

    def committed(self, count: int, in_flight: int, now: float) -> None:
        """Adapts the cap to a commit that settled `count` offsets and left `in_flight`."""
        began = self._committed_at if self._committed_at is not None else self._first_sent_at
        self._interval = max(now - began, 0.001) if began is not None else 0.001
        rate = count / self._interval
        self._rate = rate if self.never_committed else (self._rate + rate) / 2
        self._committed_at = now
        self._granted = 0
        worth = max(2 * count, round(self._rate * SHORTEST_SUPPLY), SMALLEST_WINDOW)
        # The member has more left than it processes between two commits, or in a second. It counts as slow until it
        # settles half its cap at once: processing the rest is not enough.
        is_behind = in_flight > max(count, round(self._rate * SHORTEST_SUPPLY))
        self._is_slow = is_behind or (self._is_slow and 2 * count < self.cap)
        if worth > self.cap:
            self.cap = min(worth, self._maximum)
        elif self._was_full or is_behind:
            self.cap = (self.cap + worth) // 2
        if not self._was_full:
            self._limited_since = None
        self._was_full = False
        self._doublings = 0
        if in_flight < self.cap:
            self._full_since = None

    def asked_while_full(self, now: float) -> float:
        """Notes that a member with a full window asked for more. Returns when to call `grow_if_due`: every second from
        the first such request on, since other members may stop waiting at any time."""
        if self._full_since is None:
            self._full_since = now
            self._was_full = True
        if self._limited_since is None:
            self._limited_since = now
        seconds = int(now - self._full_since)
        while self._full_since + seconds * FULL_AND_ALONE <= now:
            seconds += 1
        return self._full_since + seconds * FULL_AND_ALONE

    @property
    def is_slow(self) -> bool:
        """True if more was left at a commit than the member processes, and it has not been quicker since."""
        return self._is_slow

    @property
    def keeps_up(self) -> bool:
        """True if the member has committed, and is not known to be slow."""
        return not self.never_committed and not self._is_slow

    @property
    def may_grow_from(self) -> float:
        """The time from which its cap may grow together with those of others: a member must have had time to commit.
        Infinite if the member is slow or its cap is at the maximum."""
        if self._is_slow or self.cap >= self._maximum:
            return math.inf
        return (self._limited_since or 0.0) + FIRST_TRIAL if self.never_committed else 0.0

    def is_newly_limited(self, now: float) -> bool:
        """Returns whether its window has begun to limit it only lately, so that its speed is not known yet."""
        return self._limited_since is not None and now - self._limited_since <= FULL_ANYHOW and not self._is_slow

    def cap_if_quick(self, widest: int, pace: float, now: float) -> int:
        """Returns the window for a member if it is as quick as those that keep up.

        That is as large as their windows, or what a quick member processes in the time for which the window has limited
        this one. The time counts up to FULL_ANYHOW, by which clients commit. widest: the largest cap of the members
        that keep up. pace: the offsets a second of the quickest of them.
        """
        seconds = min(now - self._limited_since, FULL_ANYHOW) if self._limited_since is not None else 0.0
        return self._granted + max(widest, round(pace * seconds))

    def double_up_to(self, most: int) -> None:
        """Doubles the cap of a full window. Called if there are more records than the others have room for, so none of
        them gets less.

        most: what the member holds, and its equal part of the waiting records. Without this bound the first member to
        ask would get twice as much as the last.
        """
        self.cap = min(self.cap * 2, max(most, self.cap + 1), self._maximum)
        self._full_since = None

    def grow_if_due(self, others_wait: bool, now: float) -> bool:
        """Doubles the cap if the window has been full for long enough. Returns whether it did."""
        if self._full_since is None:
            return False
        trusted = self.never_committed and self._doublings < 1
        quickly = self._doublings < QUICK_DOUBLINGS and (trusted or not others_wait)
        patience = FULL_ANYHOW * 2 ** max(self._doublings - QUICK_DOUBLINGS, 0)
        # Compare sums, as `asked_while_full` does: a difference may be rounded to less than the interval.
        if now >= self._full_since + (FULL_AND_ALONE if quickly else patience):
            self.cap = min(self.cap * 2, self._maximum)
            self._full_since = now
            self._doublings += 1
            return True
        return False

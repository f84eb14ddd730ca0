"""How much a member may hold un-acknowledged, and how loaded it is: both learnt from what it commits.

A client that commits every five seconds holds thousands of records it has long processed; one that commits every poll
holds none. So neither the number held nor a constant says who is busy: the cap is about two commit intervals' worth,
and the load is what a member holds beyond that expectation (docs/decisions/0005-soft-window-and-load.md).
"""

from __future__ import annotations

import math

FULL_AND_ALONE = 1.0
"""Seconds with a full window, nobody under the cap waiting, after which the cap doubles."""
FULL_ANYHOW = 5.0
"""Seconds with a full window after which the cap doubles in any case: a client may commit every N records."""
QUICK_DOUBLINGS = 2
"""How often the cap doubles after FULL_AND_ALONE without a commit in between. From then on a doubling takes
FULL_ANYHOW, and each twice as long as the one before: who never commits must not take everything from those who are
busy. The very first one, before a client can have committed at all, is granted whoever waits."""
SHORTEST_SUPPLY = 1.0
"""Seconds of work that a member may hold, however often it commits: a Fetch every few records would slow it down."""
USUAL = 0.75
"""Part of its cap that a member may hold without being called loaded. The cap is two commit intervals' worth, so one
that keeps up holds half of it at most; the rest is room for the cap to grow when more comes in."""
OVERDUE = 15.0
"""Seconds after its first record by which a member should have committed: three times the usual interval."""
FIRST_TRIAL = 0.1
"""Seconds with a full window before it grows with those of others for the first time: who commits every poll has done
so by then, and is told apart from who does not (docs/decisions/0043)."""
SMALLEST_WINDOW = 10
"""Offsets; a very slow member is given batches cut to this size."""


class Flow:
    """The window cap and the commit rate of one member. Times in seconds, amounts in offsets."""

    __slots__ = (
        "_committed_at",
        "_doublings",
        "_first_sent_at",
        "_full_since",
        "_granted",
        "_interval",
        "_is_slow",
        "_maximum",
        "_rate",
        "_told",
        "_tried_since",
        "_was_full",
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
        self._told = False
        self._tried_since: float | None = None
        """Since when its window holds it up, that did not before."""
        self._granted = 0

    @property
    def committed_at(self) -> float | None:
        """When it last settled something."""
        return self._committed_at

    @property
    def never_committed(self) -> bool:
        return self._committed_at is None

    @property
    def pace(self) -> float:
        """Offsets a second that it works off, by its last commits."""
        return self._rate

    def sent(self, now: float) -> None:
        if self._first_sent_at is None:
            self._first_sent_at = now

    def trusted_with(self, in_flight: int) -> None:
        """It was given this much while it had no cap."""
        self._granted = in_flight
        self.cap = max(self.cap, min(in_flight, self._maximum))

    def is_overdue(self, now: float) -> bool:
        """Whether any client that commits at all would have done so by now; told once."""
        first = self._first_sent_at
        overdue = self._committed_at is None and first is not None and now - first >= OVERDUE and not self._told
        self._told = self._told or overdue
        return overdue

    @property
    def was_overdue(self) -> bool:
        """Whether that was told, and it has not committed since."""
        return self._told and self.never_committed

    def load(self, in_flight: int, now: float) -> float:
        """What it holds beyond what is usual for it; 0 for one that cannot have committed yet."""
        if self._committed_at is None and (self._first_sent_at is None or now - self._first_sent_at < FULL_ANYHOW):
            return 0.0
        return max(0.0, in_flight - USUAL * self.cap)

    def committed(self, count: int, in_flight: int, now: float) -> None:
        """It settled `count` offsets; `in_flight` are left."""
        began = self._committed_at if self._committed_at is not None else self._first_sent_at
        self._interval = max(now - began, 0.001) if began is not None else 0.001
        rate = count / self._interval
        self._rate = rate if self.never_committed else (self._rate + rate) / 2
        self._committed_at = now
        self._granted = 0
        worth = max(2 * count, round(self._rate * SHORTEST_SUPPLY), SMALLEST_WINDOW)
        # What is left is more than it works off between two commits, or in a second. That this is over is no sign that
        # it has become quicker; that it works off half of what it may hold is.
        is_behind = in_flight > max(count, round(self._rate * SHORTEST_SUPPLY))
        self._is_slow = is_behind or (self._is_slow and 2 * count < self.cap)
        if worth > self.cap:
            self.cap = min(worth, self._maximum)
        elif self._was_full or is_behind:
            self.cap = (self.cap + worth) // 2
        if not self._was_full:
            self._tried_since = None
        self._was_full = False
        self._doublings = 0
        if in_flight < self.cap:
            self._full_since = None

    def asked_while_full(self, now: float) -> float:
        """It asked for more with a full window; returns when `grow` is to be called: every second from the first on,
        since others may stop waiting at any time."""
        if self._full_since is None:
            self._full_since = now
            self._was_full = True
        if self._tried_since is None:
            self._tried_since = now
        seconds = int(now - self._full_since)
        while self._full_since + seconds * FULL_AND_ALONE <= now:
            seconds += 1
        return self._full_since + seconds * FULL_AND_ALONE

    @property
    def is_slow(self) -> bool:
        """Whether it has left more at a commit than it works off, and has not shown since that it is quicker."""
        return self._is_slow

    @property
    def keeps_up(self) -> bool:
        """Whether it has committed, and is not known to be slow."""
        return not self.never_committed and not self._is_slow

    @property
    def may_grow_from(self) -> float:
        """From when on its cap may grow with those of others; not before it has had time to tell something."""
        if self._is_slow or self.cap >= self._maximum:
            return math.inf
        return (self._tried_since or 0.0) + FIRST_TRIAL if self.never_committed else 0.0

    def is_tried(self, now: float) -> bool:
        """Whether its window has begun to hold it up lately, so that it is not known yet how quick it is."""
        return self._tried_since is not None and now - self._tried_since <= FULL_ANYHOW and not self._is_slow

    def as_if_quick(self, widest: int, pace: float, now: float) -> int:
        """How much it may hold if it is taken to be as quick as those that keep up: as much as they may, or what one
        works off in the time for which its window holds it up, no longer than FULL_ANYHOW, by when clients commit.

        widest: the greatest cap of those. pace: offsets a second of the quickest.
        """
        seconds = min(now - self._tried_since, FULL_ANYHOW) if self._tried_since is not None else 0.0
        return self._granted + max(widest, round(pace * seconds))

    def double(self, most: int) -> None:
        """It is full, and there is more than the others have room for: nobody would get less.

        most: what it holds, and its equal part of what waits; or the first to ask would have twice what the last has.
        """
        self.cap = min(self.cap * 2, max(most, self.cap + 1), self._maximum)
        self._full_since = None

    def grow(self, others_wait: bool, now: float) -> bool:
        """Double the cap if it was full for long enough; whether it did."""
        if self._full_since is None:
            return False
        trusted = self.never_committed and self._doublings < 1
        quickly = self._doublings < QUICK_DOUBLINGS and (trusted or not others_wait)
        patience = FULL_ANYHOW * 2 ** max(self._doublings - QUICK_DOUBLINGS, 0)
        # Sums are compared, not differences: what was told by `asked_while_full` must be enough, to the last bit.
        if now >= self._full_since + (FULL_AND_ALONE if quickly else patience):
            self.cap = min(self.cap * 2, self._maximum)
            self._full_since = now
            self._doublings += 1
            return True
        return False

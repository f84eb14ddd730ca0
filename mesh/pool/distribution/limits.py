"""The limits of a pool: which member is held back, for how long, and which may continue (docs/decisions/0084).

A member that is held back is treated like one at its cap: its Fetches wait on no partition. It may continue after a
timer, or when it or other members settle records. With a share, it may also continue after deliveries to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from mesh.pool.common.outbox import PoolParts
from mesh.pool.common.sharing import LimitRule, Sharing
from mesh.pool.state.limiter import Limiter
from mesh.pool.state.member import Member


class PoolLimits:
    """The limits of a pool, and the members that each holds back."""

    def __init__(self, parts: PoolParts, members: Set[Member]) -> None:
        """members: the living members that have asked for records."""
        self._group = parts.group
        self._timers = parts.timers
        self._members = members
        self._together: dict[LimitRule, Limiter] = {}
        self._limited: dict[Limiter, dict[Member, None]] = {}
        self._waiting: set[Limiter] = set()
        """Limiters with a timer."""
        self._released: dict[Member, None] = {}
        """Members that may continue."""
        self._held_back: list[Member] = []
        self._lightened: dict[Limiter, None] = {}
        """Limiters that hold members back, and of whose members one holds fewer records than before."""
        self._rules = parts.settings.sharing.limits_of(parts.group)
        self.are_used = bool(self._rules)

    def change(self, sharing: Sharing, now: float) -> None:
        """Applies changed limits. Records that members hold count for them; earlier deliveries do not."""
        rules = sharing.limits_of(self._group)
        if rules == self._rules:
            return
        self._rules, self.are_used = rules, bool(rules)
        self._together.clear()
        self._limited.clear()
        for member in self._members:
            member.limiters = ()
        for member in self._members:
            self._begin(member, now)
        for member in self._members:
            self._update(member, now)
            self._released[member] = None

    def joined(self, member: Member, now: float) -> None:
        if self.are_used:
            self._begin(member, now)
            self._others_changed(now)

    def left(self, member: Member, now: float) -> None:
        """Removes a member. Its records still count until it gives them back."""
        for limiter in member.limiters:
            self._limited[limiter].pop(member, None)
            if limiter.rule.is_of_each:
                del self._limited[limiter]
        if self.are_used:
            self._others_changed(now)

    def room(self, member: Member, now: float) -> int:
        """Returns the number of offsets that a member may get at once: at least one, unless it is held back."""
        least = min(self._room(limiter, now) for limiter in member.limiters)
        return int(min(max(least, 1.0), 1 << 62))

    def took(self, member: Member, count: int, size: int, now: float) -> None:
        """Counts offsets and bytes that were given to a member."""
        for limiter in member.limiters:
            limiter.took(count, size, now, has_others=self._has_others(limiter))
            if not limiter.is_exhausted and self._room(limiter, now) < 1.0:
                self._hold_back(limiter, now)
        for limiter, its in self._limited.items():
            if limiter.rule.share is not None and member not in its:
                limiter.others_took(count)
                self._look(limiter, now)

    def freed(self, member: Member, count: int) -> None:
        """Notes that a member holds fewer offsets."""
        for limiter in member.limiters:
            limiter.held -= count
            if limiter.is_exhausted:
                self._lightened[limiter] = None

    def take_held_back(self) -> Iterable[Member]:
        """Returns the members that have been held back since the last call."""
        held_back, self._held_back = self._held_back, []
        return held_back

    @property
    def have_changed(self) -> bool:
        """True if some member may be able to continue."""
        return bool(self._released or self._lightened)

    def take_released(self, now: float) -> Iterable[Member]:
        """Returns the members that may continue since the last call."""
        lightened, self._lightened = self._lightened, {}
        for limiter in lightened:
            self._look(limiter, now)
        released, self._released = self._released, {}
        return released

    # Internals

    def _begin(self, member: Member, now: float) -> None:
        limiters = [self._limiter(rule, now) for rule in self._rules if rule.clients.matches(member.client)]
        for limiter in limiters:
            limiter.held += member.in_flight
            self._limited.setdefault(limiter, {})[member] = None
        member.limiters = tuple(limiters)
        self._update(member, now)

    def _limiter(self, rule: LimitRule, now: float) -> Limiter:
        if rule.is_of_each:
            return Limiter(rule, now)
        limiter = self._together.get(rule)
        if limiter is None:
            limiter = self._together[rule] = Limiter(rule, now)
        return limiter

    def _room(self, limiter: Limiter, now: float) -> float:
        return limiter.room(now, has_others=self._has_others(limiter))

    def _has_others(self, limiter: Limiter) -> bool:
        return len(self._limited.get(limiter, ())) < len(self._members)

    def _others_changed(self, now: float) -> None:
        """Updates the limits with a share, which is a part of the records of all present members."""
        for limiter in [each for each in self._limited if each.rule.share is not None]:
            if limiter.is_exhausted:
                self._look(limiter, now)
            elif self._room(limiter, now) < 1.0:
                self._hold_back(limiter, now)

    def _update(self, member: Member, now: float) -> None:
        for limiter in member.limiters:
            if not limiter.is_exhausted and self._room(limiter, now) < 1.0:
                self._hold_back(limiter, now)
        member.is_held_back = any(limiter.is_exhausted for limiter in member.limiters)

    def _hold_back(self, limiter: Limiter, now: float) -> None:
        limiter.is_exhausted = True
        self._wait(limiter, now)
        for member in self._limited.get(limiter, ()):
            if not member.is_held_back:
                member.is_held_back = True
                self._held_back.append(member)

    def _wait(self, limiter: Limiter, now: float) -> None:
        when = limiter.ready_at(now)
        if when > now and limiter not in self._waiting:
            self._waiting.add(limiter)
            self._timers.at(when, lambda then: self._ready(limiter, then))

    def _ready(self, limiter: Limiter, now: float) -> None:
        self._waiting.discard(limiter)
        self._look(limiter, now)

    def _look(self, limiter: Limiter, now: float) -> None:
        """Checks whether members that a limit holds back may continue."""
        if not limiter.is_exhausted or limiter in self._waiting:
            return
        if self._room(limiter, now) < 1.0:
            self._wait(limiter, now)
            return
        limiter.is_exhausted = False
        for member in self._limited.get(limiter, ()):
            if not any(each.is_exhausted for each in member.limiters):
                member.is_held_back = False
                self._released[member] = None

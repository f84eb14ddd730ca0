"""The history of records: how often each was delivered in vain, which are suspected of killing members, and which are
given up.

The count of a span rises when its member died while it held the span. A span that was delivered in vain several times
is suspected to have a record that kills its members. Such a span is cut in half at each delivery and given alone. Only
when a single record is left can its count reach the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from mesh.records.spans import Span


class Cause(Enum):
    """The reason why a member released its records, as the log words it."""

    LEFT = "it left"
    EXPIRED = "its session timed out"
    AWAY = "its last connection closed"
    REPLACED = "a static member took its place"
    SILENT = "it was silent for too long"
    HELD = "it committed nothing for too long"
    NEVER_FETCHED = "it never fetched"
    SOUGHT = "it fetched from another position"
    NO_ROOM = "there was no room for its commit"
    LOCK_OVER = "its lock was over"
    SESSION_ENDED = "its share session ended"
    RELEASED = "it released it"
    REJECTED = "it rejected it"
    OPERATOR = "an operator took it away"


OF_SHARE_MEMBERS = frozenset({Cause.LOCK_OVER, Cause.SESSION_ENDED, Cause.RELEASED, Cause.REJECTED})
"""The causes that only share members have."""


@dataclass(frozen=True, slots=True)
class History:
    """The history of a span: how often it was delivered in vain, and why it was released.

    * count: deliveries in vain. was_sent: whether it was ever sent.
    * member, cause: the last release.
    * is_suspect: whether a record of it may have killed a member, without a count. This is so at a limit of one if the
      member held other records too.
    * is_given_up: whether no member gets it any more; its dead letter is still to be written.
    """

    count: int = 0
    was_sent: bool = False
    member: str = ""
    cause: Cause | None = None
    is_suspect: bool = False
    is_given_up: bool = False

    @property
    def blame(self) -> int:
        """The suspicion against a span: 0 if no member died with it, and higher with each member that did."""
        return 2 * self.count + self.is_suspect


UNSENT = History()


@dataclass(frozen=True, slots=True, kw_only=True)
class Redelivery:
    """The settings of redelivery. limit: the deliveries in vain after which a record becomes a dead letter; None for no
    limit.

    initial, multiplier, maximum: the seconds that a span rests before its second delivery, their growth with each
    further one, and their limit. No rest if initial is 0.
    """

    limit: int | None = None
    initial: float = 0.0
    multiplier: float = 2.0
    maximum: float = 60.0

    def is_suspected(self, history: History) -> bool:
        """Returns whether a span is suspected: from half the limit on, unless the last member released it itself."""
        if self.limit is None or history.cause is Cause.RELEASED:
            return False
        return history.is_suspect or history.count * 2 >= self.limit

    def has_reached_limit(self, history: History) -> bool:
        return self.limit is not None and history.count >= self.limit

    def rest(self, history: History) -> float:
        """Returns the seconds before a span may be delivered again."""
        if not history.blame or not self.initial:
            return 0.0
        return float(min(self.initial * self.multiplier ** min(max(history.count - 1, 0), 64), self.maximum))

    def after_release(
        self,
        span: Span,
        history: History,
        is_first: bool,
        member: str,
        cause: Cause,
        can_be_cut: Callable[[], bool] = lambda: True,
        is_alone: bool = True,
        first_record: Callable[[], int] | None = None,
    ) -> list[tuple[Span, History]]:
        """Returns the parts of a span that a member releases, with their new histories.

        * is_first: whether it is the first span that the member held of its partition.
        * can_be_cut: returns whether its records can be told apart.
        * is_alone: whether the member held nothing else. That is always so for a suspected span.
        * first_record: returns the offset of its first record, if that may not be the first offset.
        """
        same = replace(history, was_sent=True, member=member, cause=cause)
        raised = replace(same, count=history.count + 1)
        if cause in (Cause.RELEASED, Cause.REJECTED):  # the member itself named these records
            return [(span, raised)]
        # The span was not suspected: the limit is one, or the last member released it. Only a record that the member
        # held alone is given up at once.
        if self.has_reached_limit(raised) and not self.is_suspected(history):
            is_one = len(span) == 1 or not can_be_cut()
            raised = raised if is_one and is_alone else replace(same, is_suspect=True)
        match cause:
            case (
                Cause.EXPIRED
                | Cause.AWAY
                | Cause.REPLACED
                | Cause.SILENT
                | Cause.HELD
                | Cause.LOCK_OVER
                | Cause.SESSION_ENDED
            ):
                # A suspected span is halved until the bad record is alone. It keeps its count meanwhile.
                return [(span, same if self.is_suspected(history) and len(span) > 1 and can_be_cut() else raised)]
            case Cause.LEFT if is_first and self.limit is not None:
                # A poison record usually causes an exception, a close and a restart. It is the first record then.
                end = first_record() if first_record is not None else span.first
                if end == span.last or not can_be_cut():
                    return [(span, raised)]
                return [(Span(span.first, end), raised), (Span(end + 1, span.last), same)]
            case Cause.LEFT | Cause.NEVER_FETCHED | Cause.SOUGHT | Cause.NO_ROOM | Cause.OPERATOR:
                return [(span, same)]


FOR_EVER = Redelivery()

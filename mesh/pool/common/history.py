"""Which records come again how often, what is suspected of having killed members, and what is given up.

The count of a span rises when its member died with it. One that was delivered in vain again and again is suspected to
hold a record that kills its members: it is cut in half at each delivery, given alone, and only when one record is left
can its count reach the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from mesh.records.spans import Span


class Cause(Enum):
    """Why a member gave up what it held, in words for the log."""

    LEFT = "it left"
    EXPIRED = "its session timed out"
    AWAY = "its last connection closed"
    REPLACED = "a static member took its place"
    SILENT = "it was silent for too long"
    HELD = "it committed nothing for too long"
    NEVER_FETCHED = "it never fetched"
    SOUGHT = "it went on elsewhere"
    NO_ROOM = "there was no room for its commit"
    LOCK_OVER = "its lock was over"
    SESSION_ENDED = "its share session ended"
    RELEASED = "it released it"
    REJECTED = "it rejected it"


@dataclass(frozen=True, slots=True)
class History:
    """How often a span was delivered in vain, and why it came back.

    count: how often it was delivered in vain. was_sent: whether it was sent at all. member, cause: who gave it up last,
    and why. is_suspect: a record of it may have killed a member, which does not count yet: with others in hand, at a
    limit of one. is_given_up: nobody is given it any more, and its dead letter is to be written.
    """

    count: int = 0
    was_sent: bool = False
    member: str = ""
    cause: Cause | None = None
    is_suspect: bool = False
    is_given_up: bool = False

    @property
    def blame(self) -> int:
        """0 for what nobody has died with; the higher the more often."""
        return 2 * self.count + self.is_suspect


UNSENT = History()


@dataclass(frozen=True, slots=True, kw_only=True)
class Redelivery:
    """When records are delivered again, and when no more. limit: how often a record is delivered in vain, None for
    ever. Then it is a dead letter.

    initial, multiplier, maximum: seconds that a span rests before its second delivery, and how they grow; 0 for none.
    """

    limit: int | None = None
    initial: float = 0.0
    multiplier: float = 2.0
    maximum: float = 60.0

    def is_suspected(self, history: History) -> bool:
        """From half the limit on, unless who had it last lived on to release it."""
        if self.limit is None or history.cause is Cause.RELEASED:
            return False
        return history.is_suspect or history.count * 2 >= self.limit

    def is_over(self, history: History) -> bool:
        return self.limit is not None and history.count >= self.limit

    def rest(self, history: History) -> float:
        """Seconds before a span may be delivered again."""
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
        """What becomes of a span that a member gives up; is_first: the first that it held of its partition. can_be_cut:
        whether its records can be told apart, asked when that matters. is_alone: whether the member held nothing else
        (of what is suspected that is so anyhow). first_record: the offset of its first record, if that is not the first
        one, asked when that matters."""
        same = replace(history, was_sent=True, member=member, cause=cause)
        raised = replace(same, count=history.count + 1)
        if cause in (Cause.RELEASED, Cause.REJECTED):  # it knows which record it means
            return [(span, raised)]
        if self.is_over(raised) and not self.is_suspected(history):  # a limit of one, at once
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
                # A suspected span keeps its count while it is being cut: until the one record is found.
                return [(span, same if self.is_suspected(history) and len(span) > 1 and can_be_cut() else raised)]
            case Cause.LEFT if is_first and self.limit is not None:
                # The commonest poison is an exception, a close, and a restart: it stands at the first record.
                end = first_record() if first_record is not None else span.first
                if end == span.last or not can_be_cut():
                    return [(span, raised)]
                return [(Span(span.first, end), raised), (Span(end + 1, span.last), same)]
            case Cause.LEFT | Cause.NEVER_FETCHED | Cause.SOUGHT | Cause.NO_ROOM:
                return [(span, same)]


FOR_EVER = Redelivery()

"""The quarantine of spans that are suspected of having killed a member. One member gets them, one span at a time, and
nothing else.

So if that member dies, the span that it holds is to blame (docs/decisions/0011). Other members go on with all records
that are not suspected.
"""

from __future__ import annotations

from mesh.pool.common.history import Redelivery
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Fetch, Partition
from mesh.pool.state.window import Available

IDLE = 5.0
"""Seconds after which the quarantine stops waiting for a member that holds nothing and asks for nothing."""


class Quarantine:
    """Isolates suspected records. One member is on trial: the first that asks for a partition with suspected records.

    It gets nothing until it has settled the records that it holds. Then it gets only suspected spans, until its
    partitions have none.
    """

    def __init__(self, redelivery: Redelivery) -> None:
        self._is_needed = redelivery.limit is not None
        self._is_suspected = redelivery.is_suspected
        self._on_trial: Member | None = None

    def is_suspected(self, available: Available) -> bool:
        return self._is_needed and self._is_suspected(available.history)

    def add_rules(self, redelivery: Redelivery) -> None:
        """Adds the redelivery rules of share members to those of other members."""
        before = self._is_suspected
        self._is_suspected = lambda history: before(history) or redelivery.is_suspected(history)
        self._is_needed = True

    def update_trial(self, fetch: Fetch, now: float) -> None:
        """Begins or ends the trial of a member, if needed. Called when a member asks, or is offered the backlog
        again."""
        member, on_trial = fetch.member, self._on_trial
        if not self._is_needed:
            return
        could_be_tried = any(partition_fetch.partition.suspects for partition_fetch in fetch.partition_fetches)
        if on_trial is member and not could_be_tried and not member.in_flight:
            self._on_trial = None
        elif could_be_tried and (on_trial is None or _is_idle(on_trial, now)):
            self._on_trial = member

    def is_on_trial(self, member: Member) -> bool:
        """Returns whether this member gets suspected records, and nothing else."""
        return member is self._on_trial

    def left(self, member: Member) -> None:
        if member is self._on_trial:
            self._on_trial = None

    def first_for(self, partition: Partition, member: Member) -> Available | None:
        """Returns the oldest batch of a partition that a member may have."""
        is_on_trial = member is self._on_trial
        if is_on_trial and member.in_flight:
            return None
        return partition.oldest(lambda entry: entry.avoid != member.slot and self.is_suspected(entry) is is_on_trial)


def _is_idle(on_trial: Member, now: float) -> bool:
    return not on_trial.in_flight and not on_trial.parked and now - on_trial.heard_at > IDLE

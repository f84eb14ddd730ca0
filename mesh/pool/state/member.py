"""A member of a pool as the distribution of records sees it: its slots, its windows, its cap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.delivery_events import Holder
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.settings import Acknowledge
from mesh.pool.state.acquired import ShareHoldings
from mesh.pool.state.flow import Flow
from mesh.pool.state.limiter import Limiter
from mesh.pool.state.slots import Slot, Slots, slot_of
from mesh.pool.state.window import Window
from mesh.records.spans import TopicName, UpstreamPartition

BEFORE_ALL: Final = 1e12
"""A number of offsets above any member's load."""


@dataclass(frozen=True, slots=True)
class Preference:
    """The weight and priority of a member. weight: its weight; 1 is usual. priority: its priority. load_advantage,
    recent_advantage: their effect on its place in the queue, subtracted from its load and from its recent
    deliveries."""

    weight: float
    priority: int
    load_advantage: float
    recent_advantage: float


class Member:
    """A consumer of a pool. Raises SlotsExhausted if there is no slot for it.

    Its identity:

    * id: its member id; "" for a consumer that fetches without having joined (assign() mode, or no group at all).
    * slot: the slot in which new windows begin. slots: all its slots. A Fetch or commit with an offset in any of them
      is from this member.
    * has_left: whether its own client has left the group, on the connection on which it had joined.
    * needs_metadata: topics with more partitions than its client knows, until a Fetch was answered accordingly.

    Its records, in offsets:

    * in_flight: unsettled offsets that were sent to it or collected for it.
    * delivered: all offsets that it ever got, without replays. redelivered: those that were delivered before.
    * recent: how much it got in the last seconds, as a logarithm that can be compared with other members'. lately: the
      same for the last moments.
    * share: the records that a share member has acquired, None for any other member. The windows of a share member stay
      empty.

    Its requests and times, in seconds:

    * parked: its waiting Fetches. asking: the sequence of its first Fetch since its last batch; 0 while none waits.
    * served: when it last got a batch, as a count of batches in its pool.
    * heard_at: its last Fetch or OffsetCommit. fetched_at: its last Fetch. settled_at: when it last settled a record.
    * answered_at: when its last Fetch was answered; None while a Fetch waits. usually_away: the usual time from an
      answer to the next Fetch.
    * away_since: when its last connection closed.
    * unstored_since: since when it has repeated a commit that does not fit; None if it does not.

    Its limits:

    * preference: its weight and priority; None for the usual ones.
    * limiters: its limits. is_held_back: whether one of them forbids to give it anything now.
    """

    __slots__ = (
        "acknowledge",
        "answered_at",
        "asking",
        "away_since",
        "client",
        "connections",
        "delivered",
        "fetched_at",
        "flow",
        "group",
        "has_fetched",
        "has_left",
        "heard_at",
        "id",
        "in_flight",
        "instance_id",
        "is_held_back",
        "lately",
        "limiters",
        "needs_metadata",
        "parked",
        "preference",
        "rebalance_timeout",
        "recent",
        "redelivered",
        "served",
        "settled_at",
        "share",
        "slot",
        "slots",
        "unstored_since",
        "usually_away",
        "windows",
    )

    def __init__(
        self,
        group: GroupId,
        id: MemberId,
        slots: Slots[Member],
        client: ClientIdentity,
        acknowledge: Acknowledge,
        flow: Flow,
        now: float,
        share: ShareHoldings | None = None,
    ) -> None:
        self.group = group
        self.id = id
        self.instance_id: str | None = None
        self.slot = slots.give(self)
        self.slots = {self.slot}
        self.client = client
        self.acknowledge = acknowledge
        self.flow = flow
        self.share = share
        self.windows: dict[UpstreamPartition, Window] = {}
        self.parked: set[Ticket] = set()
        self.connections: set[ConnectionId] = set()
        self.in_flight = 0
        self.delivered = 0
        self.redelivered = 0
        self.needs_metadata: set[TopicName] = set()
        self.served = 0
        self.recent = self.lately = -math.inf
        self.answered_at: float | None = None
        self.usually_away = 0.0
        self.asking = 0
        self.rebalance_timeout = 0.0
        self.heard_at = now
        self.fetched_at = now
        self.settled_at = now
        self.unstored_since: float | None = None
        self.away_since = now
        self.has_fetched = False
        self.has_left = False
        self.preference: Preference | None = None
        self.limiters: tuple[Limiter, ...] = ()
        self.is_held_back = False

    def __repr__(self) -> str:
        return f"<Member {self.id or 'without group'} slot {self.slot} in flight {self.in_flight}/{self.flow.cap}>"

    def prefer(self, weight_and_priority: tuple[float, int] | None) -> None:
        """Sets the weight and priority. None: the usual ones."""
        if weight_and_priority is None:
            self.preference = None
        else:
            weight, priority = weight_and_priority
            self.preference = Preference(weight, priority, priority * BEFORE_ALL, math.log2(weight))

    def unused_slots(self) -> set[Slot]:
        """Returns its slots without a window, in which no window will begin."""
        unused = self.slots - {self.slot}
        for window in self.windows.values():
            unused -= {slot for slot in unused if slot_of(window.committed) <= slot <= slot_of(window.end)}
            if not unused:
                break
        return unused

    def slot_above(self, slots: Slots[Member], offset: int) -> Slot:
        """Returns a slot in which a window can continue above an offset. Raises SlotsExhausted.

        A window only moves up. So a window below another slot of its member has never been in that slot.
        """
        highest = max(self.slots)
        if highest > slot_of(offset):
            return highest
        for slot in self.unused_slots():
            self.slots.discard(slot)
            slots.give_back(slot)
        slot = slots.give_above(self, offset)
        self.slots.add(slot)
        return slot

    @property
    def holder(self) -> Holder:
        """The member as the journal names it."""
        return Holder(self.name, self.client.id, self.client.host)

    @property
    def name(self) -> str:
        """The name of the member in logs and metrics."""
        return self.id or f"{self.client.id}-{self.slot}"

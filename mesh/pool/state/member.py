"""A member of a pool as the distribution of records sees it: its slots, its windows, its cap."""

from __future__ import annotations

import math

from mesh.apis.answers import ConnectionId, Ticket
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.delivery_events import Holder
from mesh.pool.common.ids import GroupId, MemberId
from mesh.pool.common.settings import Acknowledge
from mesh.pool.state.acquired import ShareHoldings
from mesh.pool.state.flow import Flow
from mesh.pool.state.slots import Slot, Slots, slot_of
from mesh.pool.state.window import Window
from mesh.records.spans import TopicName, UpstreamPartition


class Member:
    """One consumer of a pool. Raises SlotsExhausted when there is no slot for it.

    id: its member id; "" for a consumer that fetches without having joined (assign() mode, or no group at all).
    slots: all slots it ever had; a Fetch or commit with any of them is its own. `slot` is the one new windows begin in.
    in_flight: offsets it holds, sent or collected for it, and has not settled.
    delivered: offsets it was ever sent, replays not counted. redelivered: those of them that had been sent before.
    parked: its Fetches that wait to be answered.
    served: when it was last given a batch, as a count of batches given in its pool. recent: how much it was given
    lately, as a logarithm that compares with those of other members.
    answered: when its last Fetch was, None while it asks. usually_away: seconds from there to its next one.
    asking: the sequence of its first Fetch since it was last given a batch; 0 while it does not wait.
    needs_metadata: topics that have more partitions than its client knows, which has not been told yet.
    heard: when it last sent a Fetch or an OffsetCommit. fetched: when it last sent a Fetch. settled: when it was last
    through with some of what it held.
    away_since: when its last connection closed. unstored_since: since when it has repeated a commit for which there is
    no room, None if it does not.
    share: what a share member has acquired; None for any other member. Its windows stay empty.
    """

    __slots__ = (
        "acknowledge",
        "answered",
        "asking",
        "away_since",
        "client",
        "connections",
        "delivered",
        "fetched",
        "flow",
        "group",
        "has_fetched",
        "heard",
        "id",
        "in_flight",
        "instance_id",
        "needs_metadata",
        "parked",
        "rebalance_timeout",
        "recent",
        "redelivered",
        "served",
        "settled",
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
        self.recent = -math.inf
        self.answered: float | None = None
        self.usually_away = 0.0
        self.asking = 0
        self.rebalance_timeout = 0.0
        self.heard = now
        self.fetched = now
        self.settled = now
        self.unstored_since: float | None = None
        self.away_since = now
        self.has_fetched = False

    def __repr__(self) -> str:
        return f"<Member {self.id or 'without group'} slot {self.slot} in flight {self.in_flight}/{self.flow.cap}>"

    def unused_slots(self) -> set[Slot]:
        """The slots that no window stands in any more, and in which none will begin."""
        unused = self.slots - {self.slot}
        for window in self.windows.values():
            unused -= {slot for slot in unused if slot_of(window.committed) <= slot <= slot_of(window.end)}
            if not unused:
                break
        return unused

    def slot_above(self, slots: Slots[Member], offset: int) -> Slot:
        """A slot of it in which a window goes on above an offset that it has reached. Raises SlotsExhausted.

        A window only ever moves up; so one that stands below another slot of its member has never been there.
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
        """What the journal calls it."""
        return Holder(self.name, self.client.id, self.client.host)

    @property
    def name(self) -> str:
        """What people and metrics call it."""
        return self.id or f"{self.client.id}-{self.slot}"

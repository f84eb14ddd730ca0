"""Divides the Fetches of one client among the brokers that lead the partitions, and joins the answers.

A Fetch is answered when the legs together have brought `min_bytes`, when a partition has an error, or at the end of its
`max_wait`. Records that arrive later are kept for the next Fetch, if it asks for their first offset. Partitions that
have not had records for the longest time come first. All legs together ask for at most `max_bytes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mesh.records.whole_batches import end_of_whole_batches
from mesh.routing.one_node.fetch_sessions import Key
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import Buffer
from mesh.wire.trees import Tree

BOUND: Final = 0.1
"""Seconds that an answer waits beyond its `max_wait` for legs with the same `max_wait`."""
MOST_BYTES: Final = 64 << 20
"""The most record bytes of one Fetch, including kept ones, even if its client allows more."""
REPLICA_FOR: Final = 300.0
"""Seconds for which the mesh reads from a follower that a leader named (KIP-392), like metadata.max.age.ms of the Java
client."""
MOST_ENDS: Final = 10_000
"""The most partitions outside of the current Fetch whose log ends are remembered: brokers report them only once in a
session."""
_LARGE: Final = 4
"""Kept records are copied if the frame that contains them is this many times larger."""
_NOWHERE: Final = -1

Broker: TypeAlias = int


@dataclass(frozen=True, slots=True)
class ClientFetch:
    """A Fetch of a client. partitions: the elements of the request, in the order in which to serve them. max_wait: in
    seconds. isolation: the isolation level."""

    partitions: Mapping[Key, Tree]
    max_wait: float
    min_bytes: int
    max_bytes: int
    isolation: int


@dataclass(frozen=True, slots=True)
class LegRequest:
    """The part of a Fetch for one broker."""

    broker: Broker
    partitions: Mapping[Key, Tree]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int


@dataclass(slots=True)
class _Leg:
    """A request to a broker that is not answered yet. number: the number of the client's Fetch that caused it. due:
    when the broker has to answer. replicas: the partitions that are read from this broker because their leader named it
    as a replica."""

    offsets: Mapping[Key, int]
    number: int
    due: float
    isolation: int
    replicas: frozenset[Key]


@dataclass(slots=True)
class _KeptRecords:
    """Records that a leg has brought and no answer has taken. offset: their first offset. answer: the broker's answer
    without the records. next: the offset after them; None if it is unknown, so that no more can be requested."""

    offset: int
    answer: Tree
    chunks: list[Buffer] = field(default_factory=list)
    size: int = 0
    next: int | None = None


class FetchJoin:
    """Joins the Fetches of one connection, which come one after the other."""

    def __init__(self) -> None:
        self._asked = ClientFetch({}, 0.0, 0, 0, 0)
        self._number = 0
        self._deadline = 0.0
        self._legs: dict[Broker, _Leg] = {}
        self._heard: set[Broker] = set()
        """The brokers that have answered this Fetch. After its `max_wait` they get no further request."""
        self._empty: set[Broker] = set()
        """The brokers that have answered this Fetch without records."""
        self._failed: set[Broker] = set()
        self._kept: dict[Key, _KeptRecords] = {}
        self._position: dict[Key, int] = {}
        """The next offset to take, by partition."""
        self._told: dict[Key, Tree] = {}
        """The answers for partitions without records in this Fetch."""
        self._errors: dict[Key, tuple[int, Tree]] = {}
        """Errors that no answer to the client has contained yet, each with the requested offset."""
        self._ends: dict[Key, Tree] = {}
        """The last answer for each partition that was not an error, without its records."""
        self._last_served: dict[Key, int] = {}
        """The number of the last Fetch whose answer had records, by partition."""
        self._replicas: dict[Key, tuple[Broker, float]] = {}
        self._order: list[Key] = []
        self._has_error = False
        self.error = ErrorCode.NONE
        """The top-level error of the answer."""

    @property
    def kept_bytes(self) -> int:
        """The bytes of records that wait for a Fetch."""
        return sum(each.size for each in self._kept.values())

    def begin(self, asked: ClientFetch, now: float) -> None:
        """Begins a Fetch. The one before it must be answered."""
        wanted = asked.partitions
        if asked.isolation != self._asked.isolation:
            self._kept.clear()
        kept = self._kept.items()
        self._kept = {key: each for key, each in kept if key in wanted and each.offset == wanted[key]["fetch_offset"]}
        self._position = {key: each["fetch_offset"] for key, each in wanted.items() if key not in self._kept}
        self._position.update((key, each.next) for key, each in self._kept.items() if each.next is not None)
        if len(self._ends) > len(wanted) + MOST_ENDS:
            self._ends = {key: each for key, each in self._ends.items() if key in wanted}
        self._last_served = {key: turn for key, turn in self._last_served.items() if key in wanted}
        self._replicas = {key: each for key, each in self._replicas.items() if key in wanted and each[1] > now}
        self._asked, self._number, self._deadline = asked, self._number + 1, now + asked.max_wait
        errors = self._errors.items()
        self._errors = {key: each for key, each in errors if key in wanted and each[0] == wanted[key]["fetch_offset"]}
        self._told = {key: told for key, (_, told) in self._errors.items()}
        self._has_error = bool(self._told)
        self._heard, self._empty, self._failed = set(), set(), set()
        self._order = sorted(wanted, key=lambda key: self._last_served.get(key, 0))
        self.error = ErrorCode.NONE

    def legs(self, leader_of: Callable[[Key], Broker], now: float) -> list[LegRequest]:
        """Returns the requests to send now; they count as sent. leader_of: the broker to ask for a partition."""
        by_broker: dict[Broker, list[Key]] = {}
        for key in self._order:
            replica = self._replicas.get(key)
            by_broker.setdefault(leader_of(key) if replica is None else replica[0], []).append(key)
        room = min(self._asked.max_bytes, MOST_BYTES) - self.kept_bytes
        legs: list[LegRequest] = []
        if self._has_error or (room <= 0 and self._kept):
            return []
        is_collecting = self.kept_bytes < max(self._asked.min_bytes, 1)
        over = self._heard if now >= self._deadline else frozenset()
        resting = self._legs.keys() | self._empty | self._failed | over
        for broker, keys in by_broker.items():
            # A request ahead of the next Fetch lacks partitions with kept records, and delays their next records until
            # the broker has answered. So only brokers without kept records get one.
            if broker in resting or (not is_collecting and not self._kept.keys().isdisjoint(keys)):
                continue
            partitions = {key: part for key in keys if (part := self._part(key)) is not None}
            if partitions:
                legs.append(self._leg(broker, partitions, max(room, 1), len(by_broker), now))
        return legs

    def answered(self, broker: Broker, answer: Mapping[Key, Tree], error: int, now: float) -> None:
        """Takes the answer of a broker. answer: by partition. error: the top-level error."""
        leg = self._legs.pop(broker, None)
        if leg is None:
            return
        if error and leg.number == self._number:
            self.error, self._has_error = ErrorCode(error), True
        if leg.number == self._number:
            self._heard.add(broker)
        is_brought = False
        for key, told in answer.items():
            if leg.isolation == self._asked.isolation and leg.offsets.get(key) == self._position.get(key, _NOWHERE):
                is_brought |= self._take(key, told, is_replica=key in leg.replicas, now=now)
        if not is_brought and leg.number == self._number:
            self._empty.add(broker)

    def failed(self, broker: Broker) -> None:
        """Notes that a broker did not answer: it gets no further request for this Fetch."""
        if self._legs.pop(broker, None) is not None:
            self._failed.add(broker)
            # If the broker was a follower, ask the leader again, like Kafka's clients: it may be alive.
            self._replicas = {key: each for key, each in self._replicas.items() if each[0] != broker}

    def is_complete(self, now: float) -> bool:
        """Returns True if the Fetch should be answered now. Must be called after `legs`."""
        if self._has_error or not self._order or self.kept_bytes >= max(self._asked.min_bytes, 1):
            return True
        if now < self._deadline:
            return not self._failed and not self._legs  # a leg for other offsets blocks its broker, too
        return self.wake_at(now) <= now

    def wake_at(self, now: float) -> float:
        """Returns the time at which the Fetch will be complete, unless a leg answers earlier."""
        if now < self._deadline:
            return self._deadline
        late = [leg.due + BOUND for leg in self._legs.values() if leg.due + BOUND > now and self._is_awaited(leg)]
        return max(late, default=now)

    def take(self) -> Mapping[Key, Tree]:
        """Returns the answers for all partitions that have one, in the order of service."""
        taken: dict[Key, Tree] = {}
        size, most = 0, min(self._asked.max_bytes, MOST_BYTES)
        for key in self._order:
            kept = self._kept.get(key)
            if kept is not None and (not size or size + kept.size <= most):
                del self._kept[key]
                size += kept.size
                self._last_served[key] = self._number
                taken[key] = kept.answer | {"records": kept.chunks[0] if len(kept.chunks) == 1 else tuple(kept.chunks)}
            elif key in self._told:
                taken[key] = self._told[key]
                self._errors.pop(key, None)
        for kept in self._kept.values():
            kept.chunks = [_copied_if_small(chunk) for chunk in kept.chunks]
        return taken

    def answer_without_records(self, key: Key) -> Tree:
        """Returns the answer for a partition that no broker has reported on for this Fetch: it has no records."""
        if (known := self._ends.get(key)) is not None:
            return known
        ends = dict.fromkeys(("high_watermark", "last_stable_offset", "log_start_offset"), _NOWHERE)
        return {"partition_index": key[1], "error_code": 0, **ends, "preferred_read_replica": -1, "records": b""}

    # Internals

    def _is_awaited(self, leg: _Leg) -> bool:
        """Returns True if a leg may bring records that this Fetch wants."""
        return any(self._position.get(key) == offset for key, offset in leg.offsets.items())

    def _part(self, key: Key) -> Tree | None:
        """Returns the element for a partition in a request to its broker; None if it is not requested."""
        part, kept = self._asked.partitions[key], self._kept.get(key)
        if kept is None:
            is_failed = key in self._told and self._told[key]["error_code"]
            return None if is_failed or key not in self._position else part
        rest = part["partition_max_bytes"] - kept.size
        if kept.next is None or rest <= 0 or self.kept_bytes >= self._asked.min_bytes:
            return None
        return part | {"fetch_offset": kept.next, "partition_max_bytes": rest, "last_fetched_epoch": -1}

    def _leg(self, broker: Broker, partitions: Mapping[Key, Tree], room: int, legs: int, now: float) -> LegRequest:
        asked, kept = self._asked, self.kept_bytes
        is_collecting = kept < max(asked.min_bytes, 1)
        wait = max(self._deadline - now, 0.0) if is_collecting else asked.max_wait
        # Ask for a fraction of the missing bytes, so that a leg can answer and be sent again long before all brokers
        # have so many.
        lacks = asked.min_bytes - kept if is_collecting else asked.min_bytes
        least = max(min(asked.min_bytes, 1), lacks // (2 * legs) if legs > 1 else lacks)
        offsets = {key: part["fetch_offset"] for key, part in partitions.items()}
        self._legs[broker] = _Leg(
            offsets, self._number, now + wait, asked.isolation, frozenset(self._replicas.keys() & offsets.keys())
        )
        return LegRequest(broker, partitions, int(wait * 1_000), least, max(room // legs, 1))

    def _take(self, key: Key, told: Tree, *, is_replica: bool, now: float) -> bool:
        """Takes the answer for one partition. Returns True if it brought records, or changed the broker to ask."""
        records, preferred = told["records"], told.get("preferred_read_replica", _NOWHERE)
        if told["error_code"] and is_replica:
            self._replicas.pop(key, None)
            return True
        if preferred >= 0 and not told["error_code"] and not records:
            self._replicas[key] = preferred, now + REPLICA_FOR
            return True
        without = told | {"preferred_read_replica": _NOWHERE}
        if told["error_code"] or (told.get("diverging_epoch") or {}).get("epoch", _NOWHERE) >= 0:
            self._errors[key] = self._position[key], without
            self._told[key], self._has_error = without, True
            return False
        self._ends[key] = without | {"records": b"", "aborted_transactions": []}
        if not records:
            self._told[key] = without
            return False
        self._keep(key, without)
        return True

    def _keep(self, key: Key, told: Tree) -> None:
        kept, records = self._kept.get(key), told["records"]
        if kept is None:
            kept = self._kept[key] = _KeptRecords(self._position[key], told | {"records": b""})
        else:
            kept.answer = told | {"records": b"", "aborted_transactions": _both(kept.answer, told)}
        end = end_of_whole_batches(records) if self._asked.min_bytes > 1 else None
        if end is None:
            del self._position[key]
            kept.next = None
        else:
            records, kept.next = memoryview(records)[: end.size], end.next
            self._position[key] = end.next
        kept.chunks.append(records)
        kept.size += len(records)


def _copied_if_small(records: Buffer) -> Buffer:
    """Returns the records, copied if the frame that contains them is much larger."""
    frame = records.obj if isinstance(records, memoryview) else records
    is_small = isinstance(frame, bytes | bytearray) and len(records) * _LARGE < len(frame)
    return bytes(records) if is_small else records


def _both(one: Tree, other: Tree) -> list[Tree]:
    """Returns the aborted transactions of two answers, each once."""
    found = [*(one.get("aborted_transactions") or ()), *(other.get("aborted_transactions") or ())]
    return list({(each["producer_id"], each["first_offset"]): each for each in found}.values())

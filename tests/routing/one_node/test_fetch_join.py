"""A Fetch over several brokers: for any answers at any time, each record comes once and in order, and the client's
limits hold."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mesh.records.encode import encode_batch
from mesh.records.whole_batches import end_of_whole_batches
from mesh.routing.one_node.fetch_join import BOUND, ClientFetch, FetchJoin, LegRequest
from mesh.routing.one_node.fetch_sessions import Key
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

BROKERS, PARTITIONS = 3, 6
KEYS: list[Key] = [("orders", partition) for partition in range(PARTITIONS)]


def batch_of(first: int, records: int) -> bytes:
    """Records at these offsets, all alike."""
    run = [(offset, 0, b"k", b"v" * 50, None) for offset in range(first, first + records)]
    return bytes(encode_batch(first, run).data)


SIZE = len(batch_of(0, 1))
"""The size of a batch with one record."""
MANY = 1 << 20


def part(key: Key, offset: int, most: int = MANY) -> Tree:
    return {"partition": key[1], "fetch_offset": offset, "partition_max_bytes": most}


def told(key: Key, records: bytes | memoryview = b"", error: int = 0, **more: object) -> Tree:
    ends = {"high_watermark": 9, "last_stable_offset": 9, "log_start_offset": 0}
    return {
        "partition_index": key[1],
        "error_code": error,
        "records": records,
        "aborted_transactions": [],
        **ends,
        **more,
    }


def whole(told: Tree) -> bytes:
    """The records of a partition, which may come in parts."""
    records = told["records"]
    return b"".join(records) if isinstance(records, tuple) else bytes(records)


def asked(offsets: Mapping[Key, int], *, wait: float = 0.5, least: int = 1, most: int = MANY) -> ClientFetch:
    return ClientFetch({key: part(key, offset) for key, offset in offsets.items()}, wait, least, most, 0)


def by_number(key: Key) -> int:
    return key[1] % BROKERS


ONE, TWO, THREE = KEYS[0], KEYS[1], KEYS[2]
"""Partitions at different brokers."""


def begun(join: FetchJoin, wanted: ClientFetch, now: float = 0.0) -> list[LegRequest]:
    join.begin(wanted, now)
    return join.legs(by_number, now)


def test_a_late_leg_is_kept_for_the_next_fetch() -> None:
    join, first = FetchJoin(), batch_of(0, 1)
    assert [leg.broker for leg in begun(join, asked({ONE: 0, TWO: 0}))] == [0, 1]
    join.answered(0, {ONE: told(ONE, first)}, 0, 0.1)
    assert join.is_complete(0.1)
    assert join.take()[ONE]["records"] == first
    join.answered(1, {TWO: told(TWO, batch_of(0, 1))}, 0, 0.2)
    legs = begun(join, asked({ONE: 1, TWO: 0}), 0.3)
    assert [leg.broker for leg in legs] == [0], "what is kept is not asked again, the other is"
    assert join.is_complete(0.3)
    assert list(join.take()) == [TWO]


def test_what_is_kept_is_not_given_where_it_is_not_asked_for() -> None:
    """For a paused partition, and for one whose member sought elsewhere."""
    for next_asked in ({ONE: 0}, {ONE: 0, TWO: 7}):
        join = FetchJoin()
        begun(join, asked({ONE: 0, TWO: 0}))
        join.answered(1, {TWO: told(TWO, batch_of(0, 1))}, 0, 0.1)
        begun(join, asked(next_asked), 0.2)
        assert join.kept_bytes == 0
        assert join.take() == {}


def test_a_broker_that_hangs_holds_nothing_up() -> None:
    """Others answer at once; without them the Fetch ends at max_wait, with an extra bound the first time only."""
    join = FetchJoin()
    begun(join, asked({ONE: 0, TWO: 0}))
    join.answered(1, {TWO: told(TWO, batch_of(0, 1))}, 0, 0.01)
    assert join.is_complete(0.01)
    join.take()
    begun(join, asked({ONE: 0, TWO: 1}), 1.0)
    join.answered(1, {TWO: told(TWO)}, 0, 1.5)
    assert join.is_complete(1.5), "the leg that was asked by an earlier Fetch is late already"
    assert join.take() == {TWO: told(TWO, preferred_read_replica=-1)}
    assert join.answer_without_records(ONE)["records"] == b""


def test_the_bound_of_a_leg_that_was_just_asked() -> None:
    join = FetchJoin()
    begun(join, asked({ONE: 0}))
    assert not join.is_complete(0.4)
    assert join.wake_at(0.4) == 0.5
    assert not join.is_complete(0.5)
    assert join.wake_at(0.5) == 0.5 + BOUND
    assert join.is_complete(0.5 + BOUND)


def test_min_bytes_is_that_of_all_legs_together() -> None:
    join = FetchJoin()
    legs = begun(join, asked({ONE: 0, TWO: 0}, least=2 * SIZE))
    assert all(leg.min_bytes <= SIZE for leg in legs), "none of them alone has to have all"
    join.answered(0, {ONE: told(ONE, batch_of(0, 1))}, 0, 0.1)
    assert not join.is_complete(0.1)
    (again,) = join.legs(by_number, 0.1)
    assert (again.broker, again.partitions[ONE]["fetch_offset"]) == (0, 1), "it goes on where that ends"
    assert again.max_wait_ms == 400
    join.answered(1, {TWO: told(TWO, batch_of(0, 1))}, 0, 0.2)
    assert join.is_complete(0.2)
    assert list(join.take()) == [ONE, TWO]


def test_records_of_two_answers_of_a_leg_are_one() -> None:
    """With the part of a batch that was cut off at the end of the first one, and the aborted transactions of both."""
    join, first, second = FetchJoin(), batch_of(0, 2), batch_of(2, 3)
    one, other = {"producer_id": 1, "first_offset": 0}, {"producer_id": 2, "first_offset": 3}
    aborted = [one], [one, other]
    begun(join, asked({ONE: 0}, least=10 * SIZE))
    join.answered(0, {ONE: told(ONE, first + second[:50], aborted_transactions=aborted[0])}, 0, 0.1)
    (leg,) = join.legs(by_number, 0.1)
    assert leg.partitions[ONE]["fetch_offset"] == 2
    assert leg.partitions[ONE]["partition_max_bytes"] == MANY - len(first)
    join.answered(0, {ONE: told(ONE, second, aborted_transactions=aborted[1])}, 0, 0.2)
    assert join.legs(by_number, 0.6) == []
    assert join.is_complete(0.6)
    taken = join.take()[ONE]
    assert whole(taken) == first + second
    assert taken["aborted_transactions"] == aborted[1]


def test_an_error_is_told_at_once() -> None:
    join = FetchJoin()
    begun(join, asked({ONE: 0, TWO: 0}))
    join.answered(0, {ONE: told(ONE, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)}, 0, 0.1)
    assert join.is_complete(0.1)
    assert join.take()[ONE]["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_error_that_came_late_is_told_by_the_next_fetch() -> None:
    """Else it would never be reported if other brokers always have records."""
    join = FetchJoin()
    begun(join, asked({ONE: 0, TWO: 0}))
    join.answered(0, {ONE: told(ONE, batch_of(0, 1))}, 0, 0.1)
    join.take()
    join.answered(1, {TWO: told(TWO, error=ErrorCode.OFFSET_OUT_OF_RANGE)}, 0, 0.2)
    begun(join, asked({ONE: 1, TWO: 0}), 0.3)
    assert join.is_complete(0.3)
    assert join.take()[TWO]["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert begun(join, asked({TWO: 0}), 0.4), "it is told once, and asked again"
    begun(join, asked({TWO: 5}), 0.5)
    assert not join.is_complete(0.5)


def test_an_error_at_an_offset_that_nobody_wants_any_more_is_none() -> None:
    join = FetchJoin()
    begun(join, asked({ONE: 0}))
    begun(join, asked({ONE: 5}), 0.5)
    join.answered(0, {ONE: told(ONE, error=ErrorCode.OFFSET_OUT_OF_RANGE)}, 0, 0.6)
    assert [leg.broker for leg in join.legs(by_number, 0.6)] == [0]
    assert not join.is_complete(0.6)


def test_a_broker_that_is_not_reached_is_waited_for_no_longer_than_the_fetch() -> None:
    join = FetchJoin()
    begun(join, asked({ONE: 0}))
    join.failed(0)
    assert join.legs(by_number, 0.1) == []
    assert not join.is_complete(0.1), "else a client would ask again and again"
    assert join.is_complete(0.5)


def test_a_broker_that_says_at_once_that_it_has_nothing_is_not_asked_again() -> None:
    join = FetchJoin()
    begun(join, asked({ONE: 0}, wait=10.0))
    join.answered(0, {ONE: told(ONE)}, 0, 0.1)
    assert join.legs(by_number, 0.1) == []
    assert join.is_complete(0.1)


def test_a_follower_that_the_leader_has_named() -> None:
    """The mesh reads from the follower. When that has an error, it asks the leader again, without telling the
    client."""
    join = FetchJoin()
    begun(join, asked({ONE: 0}))
    join.answered(0, {ONE: told(ONE, preferred_read_replica=2)}, 0, 0.1)
    assert [leg.broker for leg in join.legs(by_number, 0.1)] == [2]
    assert not join.is_complete(0.1)
    join.answered(2, {ONE: told(ONE, error=ErrorCode.OFFSET_OUT_OF_RANGE)}, 0, 0.2)
    assert [leg.broker for leg in join.legs(by_number, 0.2)] == [0]
    assert not join.is_complete(0.2)


def test_the_leader_is_asked_again_when_its_follower_is_gone() -> None:
    join = FetchJoin()
    begun(join, asked({ONE: 0}))
    join.answered(0, {ONE: told(ONE, preferred_read_replica=2)}, 0, 0.1)
    (leg,) = join.legs(by_number, 0.2)
    assert leg.broker == 2
    join.failed(2)
    (again,) = join.legs(by_number, 0.3)
    assert again.broker == by_number(ONE)


def test_another_leader_is_asked_while_the_first_one_hangs() -> None:
    join = FetchJoin()
    begun(join, asked({ONE: 0}))
    join.begin(asked({ONE: 0}), 1.0)
    assert [leg.broker for leg in join.legs(lambda _: 2, 1.0)] == [2]
    join.answered(2, {ONE: told(ONE, batch_of(0, 1))}, 0, 1.1)
    join.answered(0, {ONE: told(ONE, batch_of(0, 1))}, 0, 1.2)
    assert join.kept_bytes == SIZE, "what both bring is there once"


def test_max_bytes_is_that_of_all_legs_together_but_for_the_first_batch() -> None:
    join = FetchJoin()
    legs = begun(join, asked({ONE: 0, TWO: 0, THREE: 0}, most=SIZE + 1))
    assert all(leg.max_bytes == (SIZE + 1) // 3 for leg in legs)
    for broker, key in enumerate((ONE, TWO, THREE)):
        join.answered(broker, {key: told(key, batch_of(0, 1))}, 0, 0.1)
    assert list(join.take()) == [ONE]
    begun(join, asked({ONE: 1, TWO: 0, THREE: 0}, most=SIZE + 1), 0.2)
    assert list(join.take()) == [TWO], "who had nothing comes first"


def test_records_are_not_copied_but_for_a_small_part_of_a_frame_that_stays_behind() -> None:
    frame = bytearray(batch_of(0, 1) + batch_of(0, 1) + bytes(20 * SIZE))
    first, second = memoryview(frame)[:SIZE], memoryview(frame)[SIZE : 2 * SIZE]
    join = FetchJoin()
    begun(join, asked({ONE: 0, TWO: 0}, most=SIZE))
    join.answered(0, {ONE: told(ONE, first)}, 0, 0.1)
    join.answered(1, {TWO: told(TWO, second)}, 0, 0.1)
    (taken,) = join.take().values()
    assert taken["records"].obj is frame
    begun(join, asked({ONE: 1, TWO: 0}, most=SIZE), 0.2)
    (taken,) = join.take().values()
    assert (taken["records"], type(taken["records"])) == (second, bytes), "the frame is free meanwhile"


def test_another_isolation_starts_again() -> None:
    join = FetchJoin()
    begun(join, asked({ONE: 0}))
    join.answered(0, {ONE: told(ONE, batch_of(0, 1))}, 0, 0.1)
    wanted = asked({ONE: 0})
    join.begin(ClientFetch(wanted.partitions, 0.5, 1, MANY, 1), 0.2)
    assert join.kept_bytes == 0


def test_a_broker_is_not_asked_without_what_is_about_to_be_given() -> None:
    """Else its next records would wait until that leg has an answer, whose other partitions may have none."""
    join, beside = FetchJoin(), KEYS[3]
    assert by_number(ONE) == by_number(beside)
    begun(join, asked({ONE: 0, beside: 0}))
    join.answered(0, {ONE: told(ONE, batch_of(0, 1)), beside: told(beside)}, 0, 0.1)
    assert join.legs(by_number, 0.1) == []
    join.take()
    (leg,) = begun(join, asked({ONE: 1, beside: 0}), 0.2)
    assert leg.partitions.keys() == {ONE, beside}


class Fetching(RuleBasedStateMachine):
    """Brokers with logs of batches of one record or a few, which answer in any order, hang, fail and hand over."""

    def __init__(self) -> None:
        super().__init__()
        self.join = FetchJoin()
        self.now = 0.0
        self.logs: dict[Key, list[bytes]] = {key: [] for key in KEYS}
        self.ends: dict[Key, list[int]] = {key: [0] for key in KEYS}
        self.leaders = {key: by_number(key) for key in KEYS}
        self.position = dict.fromkeys(KEYS, 0)
        self.under_way: dict[int, LegRequest] = {}
        self.is_fetching = False
        self.wanted: ClientFetch = asked({})

    @initialize()
    def begin(self) -> None:
        for key in KEYS:
            self.produce(key, 2)

    @rule(key=st.sampled_from(KEYS), records=st.integers(1, 3))
    def produce(self, key: Key, records: int) -> None:
        end = self.ends[key][-1]
        self.logs[key].append(batch_of(end, records))
        self.ends[key].append(end + records)

    @rule(key=st.sampled_from(KEYS), broker=st.integers(0, BROKERS - 1))
    def hand_over(self, key: Key, broker: int) -> None:
        self.leaders[key] = broker

    @precondition(lambda self: not self.is_fetching)
    @rule(
        keys=st.sets(st.sampled_from(KEYS)),
        least=st.sampled_from([0, 1, 2 * SIZE, 5 * SIZE]),
        most=st.sampled_from([1, 3 * SIZE, MANY]),
        part_most=st.sampled_from([1, 2 * SIZE, MANY]),
        wait=st.sampled_from([0.0, 0.5]),
    )
    def fetch(self, keys: set[Key], least: int, most: int, part_most: int, wait: float) -> None:
        partitions = {key: part(key, self.position[key], part_most) for key in sorted(keys)}
        self.wanted = ClientFetch(partitions, wait, least, most, 0)
        self.join.begin(self.wanted, self.now)
        self.is_fetching, self.deadline = True, self.now + wait
        self.go_on()

    @precondition(lambda self: not self.is_fetching)
    @rule(key=st.sampled_from(KEYS), data=st.data())
    def seek(self, key: Key, data: st.DataObject) -> None:
        self.position[key] = data.draw(st.sampled_from(self.ends[key]))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        broker = data.draw(st.sampled_from(sorted(self.under_way)))
        leg = self.under_way.pop(broker)
        answer, size = {}, 0
        for key, asked_part in leg.partitions.items():
            if self.leaders[key] != broker:
                answer[key] = told(key, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            records = self._read(key, asked_part, size, leg.max_bytes)
            size += len(records)
            answer[key] = told(key, records)
        self.join.answered(broker, answer, 0, self.now)
        self.go_on()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        broker = data.draw(st.sampled_from(sorted(self.under_way)))
        del self.under_way[broker]
        self.join.failed(broker)
        self.go_on()

    @rule(seconds=st.sampled_from([0.05, 0.3, 1.0]))
    def wait(self, seconds: float) -> None:
        """Its timer wakes it in between, as it requested."""
        end = self.now + seconds
        while self.is_fetching and (woken := self.join.wake_at(self.now)) < end:
            self.now = woken
            self.go_on()
        self.now = end
        self.go_on()

    def go_on(self) -> None:
        if not self.is_fetching:
            return
        for leg in self.join.legs(self.leaders.__getitem__, self.now):
            assert leg.broker not in self.under_way, "a broker takes up one Fetch at a time"
            assert leg.partitions.keys() <= self.wanted.partitions.keys()
            assert leg.max_bytes >= 1
            self.under_way[leg.broker] = leg
        if self.join.is_complete(self.now):
            self._answer()
        else:
            assert self.now < self.deadline + BOUND, "no Fetch is held up longer"
            assert self.join.wake_at(self.now) > self.now

    def _answer(self) -> None:
        taken, size, most = self.join.take(), 0, self.wanted.max_bytes
        for key, each in taken.items():
            assert key in self.wanted.partitions, "nothing of what is paused"
            records = whole(each)
            if not records:
                continue
            assert not size or size + len(records) <= most
            size += len(records)
            end = end_of_whole_batches(records)
            assert end is not None
            at = self.ends[key].index(self.position[key])
            assert b"".join(self.logs[key][at:]).startswith(records[: end.size]), "once, and in order"
            self.position[key] = end.next
        self.is_fetching = False

    def _read(self, key: Key, asked_part: Tree, size: int, most: int) -> bytes:
        """Reads as a broker does: a first batch whole, of any size; others as far as they fit, the last one cut off."""
        at = self.ends[key].index(asked_part["fetch_offset"])
        log = b"".join(self.logs[key][at:])
        room = min(asked_part["partition_max_bytes"], most - size)
        first = len(self.logs[key][at]) if at < len(self.logs[key]) else 0
        return log[: max(room, first)] if not size else log[: max(room, 0)] if room >= first else b""

    @invariant()
    def what_is_kept_is_bounded(self) -> None:
        assert self.join.kept_bytes <= MANY * BROKERS


TestFetching = Fetching.TestCase


def test_no_answer_is_awaited_for_nothing() -> None:
    join = FetchJoin()
    assert begun(join, asked({})) == []
    assert join.is_complete(0.0)


@pytest.mark.parametrize("least", [0, 1])
def test_without_a_wait_brokers_say_what_they_have(least: int) -> None:
    join = FetchJoin()
    (leg,) = begun(join, asked({ONE: 0}, wait=0.0, least=least))
    assert (leg.max_wait_ms, leg.min_bytes) == (0, least)
    assert not join.is_complete(0.0)
    join.answered(0, {ONE: told(ONE)}, 0, 0.01)
    assert join.is_complete(0.01)

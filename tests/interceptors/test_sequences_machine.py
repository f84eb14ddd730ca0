"""A producer with five batches in flight, whose requests and answers may be lost, in front of a mesh that drops records
and a broker that checks sequences. The kept records are stored once and in order, whichever batches are sent again, in
part or whole."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mesh.interceptors.sequences import (
    SEQUENCES,
    KnownBatch,
    NewBatch,
    Numbered,
    ProducerPartition,
    SequencedBatch,
    Sequences,
    Unsequenced,
)
from tests.interceptors.model_broker import ModelBroker, Said

OF = ProducerPartition(7, "orders", 0)
IN_FLIGHT = 5


@dataclass
class InFlight:
    """A batch that a producer waits for. records: numbers, each unique. kept: the records that the mesh decided to
    keep."""

    epoch: int
    first: int
    records: list[int]
    decided: list[int] | None = None

    @property
    def sequenced(self) -> SequencedBatch:
        return SequencedBatch(OF, self.epoch, self.first, len(self.records))


@dataclass
class Mesh:
    """Drops random records, with a new decision each time that it is asked: only its memory makes the decision the same
    again."""

    broker: ModelBroker
    chance: random.Random
    sequences: Sequences = field(default_factory=lambda: Sequences(1 << 20))

    def produce(self, batch: InFlight, reaches_broker: bool, too_large: bool) -> Said | Unsequenced | None:
        """None: no record of it was left to send, or its answer is lost."""
        plan = self.sequences.plan(batch.sequenced)
        match plan:
            case Unsequenced():
                return plan
            case KnownBatch(dropped):
                pass
            case NewBatch():
                share = self.chance.choice((0.0, 0.5, 1.0))
                dropped = sum(1 << place for place in range(len(batch.records)) if self.chance.random() < share)
        numbered = self.sequences.number(batch.sequenced, dropped)
        assert isinstance(numbered, Numbered)
        kept = [each for place, each in enumerate(batch.records) if not dropped >> place & 1]
        assert (numbered.sequence is None) is (not kept)
        if isinstance(plan, KnownBatch) and batch.decided is not None:
            assert batch.decided == kept, "what is sent again is what was sent"
        batch.decided = kept
        if numbered.sequence is None:
            return Said.STORED
        if not reaches_broker:
            return None
        if too_large and len(batch.records) > 1 and numbered.sequence == (self.broker.last + 1) % SEQUENCES:
            self.sequences.refused(numbered)
            batch.decided = None
            return Said.OLD_EPOCH  # stands for a final refusal
        said = self.broker.append(batch.epoch, numbered.sequence, kept)
        if said in (Said.OUT_OF_ORDER, Said.OLD_EPOCH):
            self.sequences.refused(numbered)
        return said


class Producing(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32), start=st.sampled_from([0, SEQUENCES - 7]))
    def begin(self, seed: int, start: int) -> None:
        self.broker = ModelBroker()
        self.mesh = Mesh(self.broker, random.Random(seed))
        self.flying: deque[InFlight] = deque()
        self.expected: list[int] = []
        self.lost = 0
        self.epoch, self.next, self.number = 0, 0, 0
        if start:
            self.near_the_end(start)

    def near_the_end(self, start: int) -> None:
        """Near the highest sequence number, as if so many records had been produced. Mesh and broker forget this batch:
        when sequences begin at 0 again, the batches that had them are long gone."""
        self.mesh.sequences.number(SequencedBatch(OF, 0, 0, start), 0)
        self.mesh.sequences._producers[OF].batches.clear()
        self.broker.append(0, 0, [-1])
        self.broker.last = start - 1
        self.broker.log.clear()
        self.broker.batches.clear()
        self.next = start

    @property
    def sent(self) -> list[InFlight]:
        """The batches that the producer sends before it has answers: where one was divided, the last one waits."""
        return list(self.flying)[:IN_FLIGHT]

    @precondition(lambda self: len(self.flying) < IN_FLIGHT)
    @rule(count=st.integers(1, 6))
    def send(self, count: int) -> None:
        records = list(range(self.number, self.number + count))
        self.number += count
        self.flying.append(InFlight(self.epoch, self.next, records))
        self.next = (self.next + count) % SEQUENCES

    @precondition(lambda self: self.flying)
    @rule(reaching=st.integers(0, IN_FLIGHT), answered=st.integers(0, IN_FLIGHT))
    def all_come_in_order(self, reaching: int, answered: int) -> None:
        """On one connection, which breaks: so many batches reach the broker, and so many of their answers the
        producer."""
        done = 0
        for at, batch in enumerate(self.sent):
            said = self.mesh.produce(batch, at < reaching, False)
            stored = said in (Said.STORED, Said.KNOWN)
            if at < reaching:
                assert stored, said
            if stored and at == done < answered:
                done += 1
        for _ in range(done):
            self.settle(self.flying.popleft())

    @precondition(lambda self: len(self.flying) > 1)
    @rule(data=st.data())
    def one_overtakes(self, data: st.DataObject) -> None:
        """The first batch was not judged in time. Another one is refused, unless it is known, and sent again later."""
        self.mesh.sequences.plan(self.flying[0].sequenced)
        batch = data.draw(st.sampled_from(self.sent[1:]))
        is_known = batch.decided is not None
        said = self.mesh.produce(batch, False, False)
        assert is_known or said is not Said.KNOWN

    @precondition(lambda self: self.flying and self.flying[0].decided is None and len(self.flying[0].records) > 1)
    @rule(data=st.data())
    def one_is_too_large_and_is_divided(self, data: st.DataObject) -> None:
        batch = self.flying[0]
        if self.mesh.produce(batch, True, True) is not Said.OLD_EPOCH:
            return
        at = data.draw(st.integers(1, len(batch.records) - 1))
        self.flying.popleft()
        for part in (
            InFlight(batch.epoch, (batch.first + at) % SEQUENCES, batch.records[at:]),
            InFlight(batch.epoch, batch.first, batch.records[:at]),
        ):
            self.flying.appendleft(part)
        for each in self.flying:
            each.decided = None

    @precondition(lambda self: self.flying and len(self.flying[0].records) > 1 and self.flying[0].decided)
    @rule(data=st.data())
    def a_part_has_the_numbers_of_the_whole(self, data: st.DataObject) -> None:
        batch = self.flying[0]
        start = data.draw(st.integers(0, len(batch.records) - 1))
        end = data.draw(st.integers(start + 1, len(batch.records)))
        part = SequencedBatch(OF, batch.epoch, (batch.first + start) % SEQUENCES, end - start)
        plan, whole = self.mesh.sequences.plan(part), self.mesh.sequences.plan(batch.sequenced)
        assert isinstance(plan, KnownBatch) and isinstance(whole, KnownBatch)
        assert plan.dropped == (whole.dropped >> start) & ((1 << end - start) - 1)

    @rule()
    def begin_an_epoch(self) -> None:
        """Gives up the batches in flight, as after an aborted transaction: the broker may have them."""
        for batch in self.flying:
            self.settle(batch, is_known=False)
        self.flying.clear()
        self.epoch, self.next = self.epoch + 1, 0

    @rule(count=st.integers(1, 6))
    def an_old_epoch_comes_back(self, count: int) -> None:
        if self.epoch and self.broker.epoch == self.epoch:
            plan = self.mesh.sequences.plan(SequencedBatch(OF, self.epoch - 1, 0, count))
            assert plan is Unsequenced.OLD_EPOCH

    @invariant()
    def is_once_and_in_order(self) -> None:
        if not hasattr(self, "broker"):
            return
        assert len(set(self.broker.log)) == len(self.broker.log)
        assert self.broker.log == sorted(self.broker.log)
        assert set(self.expected) <= set(self.broker.log), "what was told to be stored is"

    def settle(self, batch: InFlight, is_known: bool = True) -> None:
        if is_known:
            self.expected += batch.decided or []

    def teardown(self) -> None:
        if not hasattr(self, "broker"):
            return
        for batch in self.flying:
            assert self.mesh.produce(batch, True, False) in (Said.STORED, Said.KNOWN)
            self.settle(batch)
        self.is_once_and_in_order()


Producing.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestProducing = Producing.TestCase

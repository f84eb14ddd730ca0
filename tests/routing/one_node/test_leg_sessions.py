"""Sessions with brokers: after any losses, a broker that keeps sessions like Kafka knows all partitions of each leg."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from mesh.routing.one_node.fetch_sessions import FetchSessions, Key, Resolved
from mesh.routing.one_node.leg_sessions import FEWEST, LegSession, SessionPart
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import ZERO_ID, Tree

VERSION = 12
MANY = range(FEWEST)


def part(number: int, offset: int = 0) -> Tree:
    return {"partition": number, "fetch_offset": offset, "partition_max_bytes": 1_000}


def leg(offsets: dict[int, int]) -> dict[Key, Tree]:
    return {("orders", number): part(number, offset) for number, offset in offsets.items()}


def at_zero(numbers: range) -> dict[Key, Tree]:
    return leg(dict.fromkeys(numbers, 0))


def begun(partitions: dict[Key, Tree]) -> LegSession:
    """A session, 7, that the broker has begun."""
    session = LegSession()
    assert (part := session.next_request(VERSION, partitions)).epoch == 0
    assert part.partitions == partitions
    assert not session.take_answer(7, 0)
    return session


def test_what_has_changed_is_said_and_nothing_else() -> None:
    session = begun(at_zero(MANY))
    assert session.next_request(VERSION, at_zero(MANY)) == SessionPart(7, 1, {}, [])
    assert not session.take_answer(7, 0)
    moved = leg({**dict.fromkeys(range(1, FEWEST), 0), 5: 3, 99: 0})
    said = session.next_request(VERSION, moved)
    assert said == SessionPart(7, 2, leg({5: 3, 99: 0}), [("orders", 0)])
    assert not session.take_answer(7, 0)
    assert session.next_request(VERSION, moved) == SessionPart(7, 3, {}, [])


def test_few_partitions_take_up_no_session() -> None:
    session = LegSession()
    few = at_zero(range(FEWEST - 1))
    assert session.next_request(VERSION, few) == SessionPart(0, -1, few, ())
    assert not session.take_answer(0, 0)


def test_versions_before_sessions_have_none() -> None:
    assert LegSession().next_request(6, at_zero(MANY)) == SessionPart(0, -1, at_zero(MANY), ())


def test_a_broker_without_room_is_asked_for_a_session_each_time() -> None:
    session = LegSession()
    for _ in range(2):
        assert session.next_request(VERSION, at_zero(MANY)) == SessionPart(0, 0, at_zero(MANY), ())
        assert not session.take_answer(0, 0)


@pytest.mark.parametrize("error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_session_that_the_broker_has_lost_starts_again(error: ErrorCode) -> None:
    session = begun(at_zero(MANY))
    session.next_request(VERSION, at_zero(MANY))
    assert session.take_answer(0, error)
    assert session.next_request(VERSION, at_zero(MANY)) == SessionPart(7, 0, at_zero(MANY), ())


def test_an_error_of_something_else_is_the_clients() -> None:
    session = begun(at_zero(MANY))
    session.next_request(VERSION, at_zero(MANY))
    assert not session.take_answer(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert session.next_request(VERSION, at_zero(MANY)).epoch == 0, "nobody knows whether it counted"


def test_a_request_without_an_answer_may_have_counted() -> None:
    session = begun(at_zero(MANY))
    session.next_request(VERSION, at_zero(MANY))
    session.reset()
    assert session.next_request(VERSION, at_zero(MANY)) == SessionPart(7, 0, at_zero(MANY), ()), "the old one ends"


def test_topics_by_id_are_another_session() -> None:
    session = begun(at_zero(MANY))
    assert session.next_request(13, at_zero(MANY)) == SessionPart(7, 0, at_zero(MANY), ())


class Legs(RuleBasedStateMachine):
    """The broker is the code that the mesh uses for its own clients; other tests compare its sessions with real
    brokers."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = iter(range(1, 10_000))
        self.broker = FetchSessions(lambda: next(self.ids))
        self.session = LegSession()

    @rule(offsets=st.dictionaries(st.integers(0, 30), st.integers(0, 2), min_size=1), take_answer=st.booleans())
    def fetch(self, offsets: dict[int, int], take_answer: bool) -> None:
        wanted = leg(offsets)
        resolved = self._ask(wanted)
        if isinstance(resolved, ErrorCode):
            assert self.session.take_answer(0, resolved)
            resolved = self._ask(wanted)
        assert isinstance(resolved, Resolved), "once is enough"
        assert resolved.partitions == wanted
        if take_answer:
            self.session.reset()
        else:
            assert not self.session.take_answer(resolved.session_id, 0)

    @rule()
    def restart(self) -> None:
        self.broker = FetchSessions(lambda: next(self.ids))

    def _ask(self, wanted: dict[Key, Tree]) -> Resolved | ErrorCode:
        said = self.session.next_request(VERSION, wanted)
        topic = {"topic": "orders", "topic_id": ZERO_ID}
        return self.broker.resolve(
            VERSION,
            {
                "session_id": said.id,
                "session_epoch": said.epoch,
                "topics": [topic | {"partitions": list(said.partitions.values())}] if said.partitions else [],
                "forgotten_topics_data": [topic | {"partitions": [number for _, number in said.forgotten]}],
            },
        )


TestLegs = Legs.TestCase

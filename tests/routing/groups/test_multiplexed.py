"""Members of the consumer and share protocols in several clusters: what each is asked, and what the member is told."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesh.routing.groups import multiplexed
from mesh.routing.groups.multiplexed import JOIN, MultiplexedMembers, RouteState, is_full
from mesh.routing.names import LeafNumber
from mesh.routing.union import Owner
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

EU, US = LeafNumber(0), LeafNumber(1)
TOPICS = {"eu.a": (EU, UUID(int=1)), "us.a": (US, UUID(int=2)), "us.b": (US, UUID(int=3))}


def owner(topic: str) -> Owner | None:
    return Owner(TOPICS[topic][0], topic[3:]) if topic in TOPICS else None


def leaf_of_id(id: UUID) -> LeafNumber | None:
    return next((leaf for leaf, known in TOPICS.values() if known == id), None)


def beat(epoch: int, **fields: Any) -> Tree:
    return {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout_ms": -1,
        "subscribed_topic_names": None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": None,
        **fields,
    }


def join(*names: str) -> Tree:
    return beat(JOIN, rebalance_timeout_ms=9_000, subscribed_topic_names=[*names], topic_partitions=[])


def said(epoch: int, *topics: str, code: int = 0) -> Tree:
    """What a cluster answers that assigns these topics."""
    partitions = [{"topic_id": TOPICS[name][1], "partitions": [0, 1]} for name in topics]
    return {
        "error_code": code,
        "error_message": None,
        "member_id": "m",
        "member_epoch": epoch,
        "heartbeat_interval_ms": 5_000 - epoch,
        "assignment": {"topic_partitions": partitions},
    }


def owned(*topics: str) -> list[Tree]:
    return [{"topic_id": TOPICS[name][1], "partitions": [0, 1]} for name in topics]


def told(answer: Tree) -> set[str] | None:
    if answer["assignment"] is None:
        return None
    by_id = {id: name for name, (_, id) in TOPICS.items()}
    return {by_id[each["topic_id"]] for each in answer["assignment"]["topic_partitions"]}


class World:
    """One member, and what it is told."""

    def __init__(self) -> None:
        self.members = MultiplexedMembers(owner, leaf_of_id)

    def asked(self, request: Tree) -> dict[LeafNumber, Tree]:
        member = self.members.known(request, EU, 0.0)
        assert member is not None
        self.request, self.member = request, member
        return self.members.asked(member, request, request["subscribed_topic_names"])

    def answered(self, at_home: Tree, at_us: Tree | None = None) -> Tree:
        self.members.taken(self.member.routes[EU], at_home)
        assert not self.members.answered(self.member, US, at_us)
        others = [] if at_us is None or at_us["error_code"] else [at_us]
        return self.members.answer(self.member, at_home, others, is_full=is_full(self.request))


def joined() -> World:
    """In both, with a topic of each."""
    world = World()
    world.asked(join("eu.a", "us.a"))
    world.answered(said(3, "eu.a"), said(8, "us.a"))
    return world


def test_a_member_joins_each_cluster_that_has_a_topic_of_its_own() -> None:
    world = World()
    asked = world.asked(join("eu.a", "us.a", "us.b", "no.a"))
    assert {leaf: each["subscribed_topic_names"] for leaf, each in asked.items()} == {EU: ["a"], US: ["a", "b"]}
    assert all(each["member_epoch"] == 0 and each["topic_partitions"] == [] for each in asked.values())
    answer = world.answered(said(3, "eu.a"), said(8, "us.a", "us.b"))
    assert (answer["member_epoch"], answer["heartbeat_interval_ms"]) == (3, 4_992)
    assert told(answer) == {"eu.a", "us.a", "us.b"}


def test_who_has_nothing_at_home_is_a_member_there_all_the_same() -> None:
    asked = World().asked(join("us.a"))
    assert {leaf: each["subscribed_topic_names"] for leaf, each in asked.items()} == {EU: [], US: ["a"]}


def test_a_member_of_a_share_group_subscribes_to_something_at_home() -> None:
    """Brokers refuse one that subscribes to nothing."""
    request = {"group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["us.a"]}
    asked = World().asked(request)
    assert {leaf: each["subscribed_topic_names"] for leaf, each in asked.items()} == {
        EU: ["another-cluster/us.a"],
        US: ["a"],
    }


def test_each_cluster_hears_its_own_epoch_and_what_is_owned_of_it() -> None:
    world = joined()
    asked = world.asked(beat(3, topic_partitions=owned("eu.a", "us.a")))
    assert {leaf: each["member_epoch"] for leaf, each in asked.items()} == {EU: 3, US: 8}
    assert {leaf: each["topic_partitions"] for leaf, each in asked.items()} == {EU: owned("eu.a"), US: owned("us.a")}
    assert told(world.answered(said(3, "eu.a"), said(8, "us.a"))) is None
    assert all(each["topic_partitions"] is None for each in world.asked(beat(3)).values())
    assert told(world.answered(said(3, "eu.a"), said(9))) == {"eu.a"}


def test_a_cluster_that_is_added_is_joined_with_everything_and_one_that_is_left_is_told() -> None:
    world = World()
    world.asked(join("eu.a"))
    world.answered(said(3, "eu.a"))
    asked = world.asked(beat(3, subscribed_topic_names=["us.b"]))
    assert asked[EU]["subscribed_topic_names"] == []
    full = asked[US]
    assert (full["member_epoch"], full["rebalance_timeout_ms"], full["topic_partitions"]) == (0, 9_000, [])
    assert told(world.answered(said(4), said(1, "us.b"))) == {"us.b"}
    asked = world.asked(beat(4, subscribed_topic_names=["eu.a"]))
    assert asked[US]["member_epoch"] == -1
    assert told(world.answered(said(5, "eu.a"))) == {"eu.a"}


def test_a_cluster_that_fences_a_member_takes_its_own_partitions_only() -> None:
    world = joined()
    world.asked(beat(3, topic_partitions=owned("eu.a", "us.a")))
    answer = world.answered(said(3, "eu.a"), said(0, code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert (answer["error_code"], told(answer)) == (0, {"eu.a"})
    assert list(world.asked(beat(3))) == [EU], "it still owns them"
    world.answered(said(3, "eu.a"))
    again = world.asked(beat(3, topic_partitions=owned("eu.a")))[US]
    assert (again["member_epoch"], again["topic_partitions"], again["subscribed_topic_names"]) == (0, [], ["a"])
    assert told(world.answered(said(3, "eu.a"), said(1, "us.a"))) == {"eu.a", "us.a"}


def test_a_cluster_that_is_down_keeps_what_it_has_assigned() -> None:
    world = joined()
    for at_us in (None, said(0, code=ErrorCode.NOT_COORDINATOR), said(0, code=ErrorCode.COORDINATOR_NOT_AVAILABLE)):
        assert world.asked(beat(3))[US]["member_epoch"] == 8
        assert told(world.answered(said(3, "eu.a"), at_us)) is None
    full = beat(3, subscribed_topic_names=["eu.a", "us.a"], topic_partitions=owned("eu.a"))
    world.asked(full)
    assert told(world.answered(said(3, "eu.a"))) == {"eu.a", "us.a"}


def test_any_other_error_is_the_members() -> None:
    world = joined()
    world.asked(beat(3))
    assert world.members.answered(world.member, US, said(0, code=42)) == 42


def test_who_joins_again_begins_anew_everywhere() -> None:
    world = joined()
    asked = world.asked(join("eu.a"))
    assert {leaf: each["member_epoch"] for leaf, each in asked.items()} == {EU: 0, US: -1}
    assert told(world.answered(said(5, "eu.a"))) == {"eu.a"}


def test_who_is_not_heard_of_is_forgotten() -> None:
    members = MultiplexedMembers(owner, leaf_of_id)
    assert members.known(beat(3), EU, 0.0) is None
    members.known(join("eu.a"), EU, 0.0)
    assert members.known(beat(3), EU, multiplexed.SESSION - 1) is not None
    assert members.known(beat(3), EU, 3 * multiplexed.SESSION) is None
    members.known(join("eu.a"), EU, 200.0)
    members.forget("g", "m")
    assert members.get("g", "m") is None


def test_subscriptions_of_all_members_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexed, "MOST_SUBSCRIBED", 100)
    members = MultiplexedMembers(owner, leaf_of_id)
    for number in range(5):
        members.known({**join("n" * 40), "member_id": f"m{number}"}, EU, float(number))
    assert [number for number in range(5) if members.get("g", f"m{number}") is not None] == [3, 4]
    members.known({**join("n" * 90), "member_id": "m4"}, EU, 5.0)
    assert members.get("g", "m3") is None, "one that subscribes to more makes room for itself"
    members.known({**join("n" * 200), "member_id": "m5"}, EU, 6.0)
    assert members.get("g", "m5") is not None, "one alone may have more"
    members.forget("g", "m5")
    for number in range(2):
        members.known({**join("n" * 40), "member_id": f"n{number}"}, EU, 7.0)
    assert members.get("g", "n0") is not None


def test_who_was_given_an_id_is_known_by_it() -> None:
    members = MultiplexedMembers(owner, leaf_of_id)
    member = members.known(join("eu.a") | {"member_id": ""}, EU, 0.0)
    members.renamed("g", "given")
    assert members.get("g", "given") is member


class Outages(RuleBasedStateMachine):
    """A member of both clusters, of which us comes, goes and fences; a broker there gives a partition only to who is a
    member, and gives it anew only if the member has let go of it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.is_up, self.is_known, self.epoch_there = True, False, 0
        self.owns: set[str] = set()
        self.beats(join("eu.a", "us.a"))

    def beats(self, request: Tree) -> None:
        asked = self.world.asked(request)
        at_us = self.us_says(asked[US]) if US in asked and self.is_up else None
        answer = self.world.answered(said(3, "eu.a"), at_us)
        if (now := told(answer)) is not None:
            self.owns = now

    def us_says(self, asked: Tree) -> Tree:
        if asked["member_epoch"] == JOIN:
            assert "us.a" not in self.owns, "it would be taken for one that is revoked already"
            assert asked["subscribed_topic_names"] == ["a"]
            self.is_known, self.epoch_there = True, self.epoch_there + 1
        elif not self.is_known or asked["member_epoch"] != self.epoch_there:
            return said(0, code=ErrorCode.UNKNOWN_MEMBER_ID)
        return said(self.epoch_there, "us.a")

    @rule(is_full=st.booleans(), says_owned=st.booleans())
    def beat(self, is_full: bool, says_owned: bool) -> None:
        names = ["eu.a", "us.a"] if is_full else None
        self.beats(
            beat(
                3,
                subscribed_topic_names=names,
                topic_partitions=owned(*sorted(self.owns)) if says_owned or is_full else None,
            )
        )

    @rule()
    def goes(self) -> None:
        self.is_up = False

    @rule()
    def comes(self) -> None:
        self.is_up = True

    @rule()
    def fences(self) -> None:
        self.is_known = False

    @precondition(lambda self: self.is_up)
    @rule()
    def recovers(self) -> None:
        """In a few heartbeats it has everything again."""
        for _ in range(4):
            self.beat(is_full=False, says_owned=True)
        assert self.owns == {"eu.a", "us.a"}

    @invariant()
    def home_goes_on(self) -> None:
        assert "eu.a" in self.owns
        assert self.world.member.routes[EU].state is RouteState.IN


TestOutages = Outages.TestCase
TestOutages.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)

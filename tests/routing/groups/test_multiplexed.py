"""Members of the consumer and share protocols in several clusters: the requests to each cluster, and the answers to the
member."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mesh.routing.concatenated import Concatenations, PartIds, PartsAtLeaf, concatenate
from mesh.routing.groups import multiplexed
from mesh.routing.groups.multiplexed import JOIN, MembershipState, MultiplexedMembers, is_full
from mesh.routing.groups.places import Places
from mesh.routing.names import LeafNumber
from mesh.routing.union import Owner
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

EU, US = LeafNumber(0), LeafNumber(1)
TOPICS = {"eu.a": (EU, UUID(int=1)), "us.a": (US, UUID(int=2)), "us.b": (US, UUID(int=3))}


def owner(topic: str) -> Owner | None:
    return Owner(TOPICS[topic][0], topic[3:]) if topic in TOPICS else None


class TwoClusters:
    """The union of these topics. Implements `mesh.routing.groups.places.TopicOwners`."""

    def __init__(self, concatenated: Concatenations | None = None) -> None:
        self.concatenated = concatenated or Concatenations()
        self.part_ids = PartIds()

    def parts_at(self, leaf: LeafNumber) -> PartsAtLeaf:
        return PartsAtLeaf(leaf, self.concatenated, self.part_ids)

    def owner(self, topic: str) -> Owner | None:
        return owner(topic)

    def leaf_of_topic_id(self, topic_id: UUID) -> LeafNumber | None:
        return next((leaf for leaf, known in TOPICS.values() if known == topic_id), None)


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
    """The answer of a cluster that assigns these topics."""
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
    """One member, and the answers that it gets."""

    def __init__(self) -> None:
        self.members = MultiplexedMembers(Places(TwoClusters()))

    def asked(self, request: Tree) -> dict[LeafNumber, Tree]:
        member = self.members.take_heartbeat(request, EU, 0.0)
        assert member is not None
        self.request, self.member = request, member
        return self.members.heartbeats(member, request, request["subscribed_topic_names"])

    def answered(self, at_home: Tree, at_us: Tree | None = None) -> Tree:
        self.members.accepted(self.member, EU, at_home)
        assert not self.members.take_answer(self.member, US, at_us)
        others = [] if at_us is None or at_us["error_code"] else [at_us]
        return self.members.answer(self.member, at_home, others, is_full=is_full(self.request))


def joined() -> World:
    """Joins both, with a topic of each."""
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


def test_a_member_without_topics_at_home_is_a_member_there_all_the_same() -> None:
    asked = World().asked(join("us.a"))
    assert {leaf: each["subscribed_topic_names"] for leaf, each in asked.items()} == {EU: [], US: ["a"]}


def test_a_member_of_a_share_group_subscribes_to_something_at_home() -> None:
    """Brokers refuse a member without a subscription."""
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


AWAY = [None, said(0, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), said(0, code=ErrorCode.NOT_COORDINATOR)]
"""Answers of a cluster that has not taken a heartbeat. None: it may have taken it, and its answer is lost."""


@pytest.mark.parametrize("at_us", AWAY)
@pytest.mark.parametrize(
    "changed", [{"subscribed_topic_names": ["eu.a", "us.a", "us.b"]}, {"topic_partitions": owned("eu.a")}, {}]
)
def test_a_cluster_that_accepted_no_heartbeat_gets_a_full_one_until_it_does(at_us: Tree | None, changed: Tree) -> None:
    """The member says nothing twice: its home has accepted what it said."""
    world = joined()
    world.asked(beat(3, topic_partitions=owned("eu.a", "us.a")))
    world.answered(said(3, "eu.a"), said(8, "us.a"))
    world.asked(beat(3, **changed))
    world.answered(said(3, "eu.a"), at_us)
    for _ in range(2):
        asked = world.asked(beat(3))
        full = asked[US]
        assert (full["member_id"], full["member_epoch"], full["rebalance_timeout_ms"]) == ("m", 8, 9_000)
        assert full["subscribed_topic_names"] == (["a", "b"] if "subscribed_topic_names" in changed else ["a"])
        assert full["topic_partitions"] == ([] if "topic_partitions" in changed else owned("us.a"))
        assert (asked[EU]["subscribed_topic_names"], asked[EU]["topic_partitions"]) == (None, None)
        world.answered(said(3, "eu.a"), at_us)
    world.asked(beat(3))
    assert told(world.answered(said(3, "eu.a"), said(9, "us.b"))) == {"eu.a", "us.b"}
    short = world.asked(beat(3))[US]
    assert (short["member_epoch"], short["subscribed_topic_names"], short["topic_partitions"]) == (9, None, None)


def test_everybody_gets_a_full_heartbeat_after_one_that_the_home_did_not_accept() -> None:
    world = joined()
    world.asked(beat(3, subscribed_topic_names=["eu.a", "us.b"]))  # us is not asked when the home has an error
    asked = world.asked(beat(3))
    assert {leaf: each["subscribed_topic_names"] for leaf, each in asked.items()} == {EU: ["a"], US: ["b"]}
    assert all(each["topic_partitions"] == [] for each in asked.values())
    world.answered(said(3, "eu.a"), said(9, "us.b"))
    assert all(each["subscribed_topic_names"] is None for each in world.asked(beat(3)).values())


def test_a_topic_that_has_another_cluster_now_is_subscribed_to_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic has moved, or a reload has changed the rules for names. The member does not notice."""
    world = World()
    world.asked(join("eu.a", "us.a", "us.b"))
    world.answered(said(3, "eu.a"), said(8, "us.a", "us.b"))
    monkeypatch.setitem(TOPICS, "us.b", (EU, UUID(int=4)))
    asked = world.asked(beat(3))
    assert {leaf: each["subscribed_topic_names"] for leaf, each in asked.items()} == {EU: ["a", "b"], US: ["a"]}
    assert told(world.answered(said(4, "eu.a", "us.b"), said(9, "us.a"))) == {"eu.a", "us.a", "us.b"}
    assert all(each["subscribed_topic_names"] is None for each in world.asked(beat(4)).values())


def test_any_other_error_is_the_members() -> None:
    world = joined()
    world.asked(beat(3))
    assert world.members.take_answer(world.member, US, said(0, code=42)) == 42


def test_a_member_that_joins_again_starts_again_everywhere() -> None:
    world = joined()
    asked = world.asked(join("eu.a"))
    assert {leaf: each["member_epoch"] for leaf, each in asked.items()} == {EU: 0, US: -1}
    assert told(world.answered(said(5, "eu.a"))) == {"eu.a"}


def test_a_member_that_is_not_heard_of_is_forgotten() -> None:
    members = MultiplexedMembers(Places(TwoClusters()))
    assert members.take_heartbeat(beat(3), EU, 0.0) is None
    members.take_heartbeat(join("eu.a"), EU, 0.0)
    assert members.take_heartbeat(beat(3), EU, multiplexed.SESSION - 1) is not None
    assert members.take_heartbeat(beat(3), EU, 3 * multiplexed.SESSION) is None
    members.take_heartbeat(join("eu.a"), EU, 200.0)
    members.forget("g", "m")
    assert members.get("g", "m") is None


def test_subscriptions_of_all_members_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexed, "MOST_SUBSCRIBED", 100)
    members = MultiplexedMembers(Places(TwoClusters()))
    for number in range(5):
        members.take_heartbeat({**join("n" * 40), "member_id": f"m{number}"}, EU, float(number))
    assert [number for number in range(5) if members.get("g", f"m{number}") is not None] == [3, 4]
    members.take_heartbeat({**join("n" * 90), "member_id": "m4"}, EU, 5.0)
    assert members.get("g", "m3") is None, "one that subscribes to more makes room for itself"
    members.take_heartbeat({**join("n" * 200), "member_id": "m5"}, EU, 6.0)
    assert members.get("g", "m5") is not None, "one alone may have more"
    members.forget("g", "m5")
    for number in range(2):
        members.take_heartbeat({**join("n" * 40), "member_id": f"n{number}"}, EU, 7.0)
    assert members.get("g", "n0") is not None


def test_members_that_join_without_an_id_are_known_by_the_ids_that_they_get() -> None:
    members = MultiplexedMembers(Places(TwoClusters()))
    first = members.take_heartbeat(join("eu.a") | {"member_id": ""}, EU, 0.0)
    second = members.take_heartbeat(join("us.a") | {"member_id": ""}, EU, 0.0)  # before the first one got its id
    assert first is not None and second is not None
    assert members.heartbeats(first, join("eu.a"), ["eu.a"]).keys() == {EU}
    assert members.heartbeats(second, join("us.a"), ["us.a"]).keys() == {EU, US}
    members.assign_id("g", "one", first)
    members.assign_id("g", "two", second)
    assert members.get("g", "one") is first
    assert members.get("g", "two") is second
    assert first.memberships.keys() == {EU}


def test_a_member_that_gets_no_id_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexed, "MOST_SUBSCRIBED", 100)
    members = MultiplexedMembers(Places(TwoClusters()))
    members.take_heartbeat(join("n" * 40), EU, 0.0)
    for _ in range(5):  # the home refuses it
        members.take_heartbeat(join("n" * 40) | {"member_id": ""}, EU, 0.0)
    assert members.get("g", "") is None
    assert members.get("g", "m") is not None
    given = members.take_heartbeat(join("n" * 80) | {"member_id": ""}, EU, 0.0)
    assert given is not None
    members.assign_id("g", "given", given)
    assert members.get("g", "m") is None, "its subscription counts once it has an id"


class BrokerOfUs:
    """The coordinator in us. It gives the member all topics of its subscription, with a new epoch whenever they change.
    It says them only if they have changed, or in answer to a full heartbeat. It fences a member with an older epoch,
    unless the partitions that the member owns show that it missed the last answer only."""

    def __init__(self) -> None:
        self.is_known, self.epoch = False, 0
        self._topics: list[str] = []
        self._older = 0

    def says(self, asked: Tree) -> Tree:
        names = asked["subscribed_topic_names"]
        if asked["member_epoch"] == JOIN:
            assert names is not None
            assert asked["topic_partitions"] == []
            self.is_known, self._topics = True, []
        elif not self.is_known or not self._may_be(asked):
            return said(0, code=ErrorCode.FENCED_MEMBER_EPOCH)
        is_full = names is not None and asked["topic_partitions"] is not None
        if names is not None and self._topics != (wanted := [f"us.{name}" for name in names]):
            self._topics, self._older, self.epoch, is_full = wanted, self.epoch, self.epoch + 1, True
        answer = said(self.epoch, *self._topics)
        return answer if is_full else answer | {"assignment": None}

    def _may_be(self, asked: Tree) -> bool:
        given = {TOPICS[name][1] for name in self._topics}
        owns = asked["topic_partitions"]
        has_missed_one = owns is not None and {each["topic_id"] for each in owns} <= given
        return asked["member_epoch"] == self.epoch or (asked["member_epoch"] == self._older and has_missed_one)


class Outages(RuleBasedStateMachine):
    """A member of both clusters. It says only what has changed. us goes down, comes back and fences, and answers of us
    get lost."""

    def __init__(self) -> None:
        super().__init__()
        self.world, self.us = World(), BrokerOfUs()
        self.is_up, self.is_heard = True, True
        self.owns: set[str] = set()
        self.owns_others = False
        """True if the member owns other partitions than it has said."""
        self.names = ["eu.a", "us.a"]
        self.beats(join(*self.names))

    def beats(self, request: Tree) -> None:
        asked = self.world.asked(request)
        if US in asked and asked[US]["member_epoch"] == JOIN:
            assert not any(name.startswith("us.") for name in self.owns), "they would be taken for revoked ones"
        at_us = self.us.says(asked[US]) if US in asked and self.is_up else None
        answer = self.world.answered(said(3, "eu.a"), at_us if self.is_heard else None)
        if (now := told(answer)) is not None and now != self.owns:
            self.owns = now
            self.owns_others = True

    def beat_with(self, **fields: Any) -> None:
        if self.owns_others:
            fields.setdefault("topic_partitions", owned(*sorted(self.owns)))
        self.owns_others = False
        self.beats(beat(3, **fields))

    @rule()
    def beat(self) -> None:
        self.beat_with()

    @rule()
    def beat_in_full(self) -> None:
        self.beat_with(subscribed_topic_names=self.names, topic_partitions=owned(*sorted(self.owns)))

    @rule(names=st.sampled_from([["eu.a", "us.a"], ["eu.a", "us.b"], ["eu.a", "us.a", "us.b"]]))
    def subscribe(self, names: list[str]) -> None:
        self.names = names
        self.beat_with(subscribed_topic_names=names)

    @rule()
    def goes(self) -> None:
        self.is_up = False

    @rule()
    def comes(self) -> None:
        self.is_up = True

    @rule(is_heard=st.booleans())
    def hears(self, is_heard: bool) -> None:
        self.is_heard = is_heard

    @rule()
    def fences(self) -> None:
        self.us.is_known = False

    @rule()
    def recovers(self) -> None:
        """us is back. Within a few heartbeats the member has everything again."""
        self.is_up = self.is_heard = True
        for _ in range(4):
            self.beat()
        assert self.owns == {*self.names}

    @invariant()
    def home_goes_on(self) -> None:
        assert "eu.a" in self.owns
        assert self.world.member.memberships[EU].state is MembershipState.JOINED


TestOutages = Outages.TestCase
TestOutages.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


JOINED = concatenate("joined", "eu", [(EU, "joined", 2), (US, "joined-us", 3)])
REAL = {EU: UUID(int=20), US: UUID(int=21)}


def of_joined() -> World:
    """A member of a group that reads a concatenated topic."""
    world, clusters = World(), TwoClusters(Concatenations([JOINED]))
    for part in JOINED.parts:
        clusters.part_ids.learn(part.leaf, part.topic, REAL[part.leaf])
    world.members = MultiplexedMembers(Places(clusters))
    return world


def assigned(epoch: int, leaf: LeafNumber, *partitions: int) -> Tree:
    told = [{"topic_id": REAL[leaf], "partitions": [*partitions]}] if partitions else []
    return said(epoch) | {"assignment": {"topic_partitions": told}}


def test_a_member_reads_all_parts_of_a_concatenated_topic() -> None:
    """Partition 9 of us is beyond its width."""
    world = of_joined()
    asked = world.asked(join("joined"))
    assert {leaf: each["subscribed_topic_names"] for leaf, each in asked.items()} == {EU: ["joined"], US: ["joined-us"]}
    answer = world.answered(assigned(3, EU, 0, 1), assigned(8, US, 0, 2, 9))
    assert answer["assignment"] == {"topic_partitions": [{"topic_id": JOINED.id, "partitions": [0, 1, 2, 4]}]}
    owned = [{"topic_id": JOINED.id, "partitions": [1, 2, 4]}]
    asked = world.asked(beat(3, topic_partitions=owned))
    assert {leaf: each["topic_partitions"] for leaf, each in asked.items()} == {
        EU: [{"topic_id": REAL[EU], "partitions": [1]}],
        US: [{"topic_id": REAL[US], "partitions": [0, 2]}],
    }


def test_a_member_that_was_fenced_at_a_part_joins_there_again_when_it_owns_nothing_of_it() -> None:
    world = of_joined()
    world.asked(join("joined"))
    world.answered(assigned(3, EU, 0), assigned(8, US, 1))
    owned = [{"topic_id": JOINED.id, "partitions": [0, 3]}]
    world.asked(beat(3, topic_partitions=owned))
    answer = world.answered(assigned(3, EU, 0), said(0, code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert answer["assignment"] == {"topic_partitions": [{"topic_id": JOINED.id, "partitions": [0]}]}
    assert [*world.asked(beat(3, topic_partitions=owned))] == [EU], "it still owns partition 3"
    owned = [{"topic_id": JOINED.id, "partitions": [0]}]
    assert world.asked(beat(3, topic_partitions=owned))[US]["member_epoch"] == JOIN

"""The topics of a member that is one in several clusters: their places, and each cluster's numbers for its
partitions."""

from __future__ import annotations

from uuid import UUID

from mesh.routing.concatenated import Concatenations, concatenate
from mesh.routing.groups.places import Places
from tests.routing.groups.test_multiplexed import EU, TOPICS, US, TwoClusters

JOINED = concatenate("joined", "eu", [(EU, "joined", 2), (US, "joined-us", 3)])
OF_US = UUID(int=30)


def places(*, is_known: bool = True) -> Places:
    """The places; us has reported the id of its part, unless it is not known."""
    union = TwoClusters(Concatenations([JOINED]))
    if is_known:
        union.part_ids.learn(US, "joined-us", OF_US)
    return Places(union)


def test_the_leaves_of_a_topic() -> None:
    assert places().of_topic("joined") == [(EU, "joined"), (US, "joined-us")]
    assert places().of_topic("us.a") == [(US, "a")]
    assert places().of_topic("no.a") == []


def test_partitions_are_those_of_the_leaf_by_its_own_numbers() -> None:
    ordinary = {"topic_id": TOPICS["us.a"][1], "partitions": [7]}
    owned = [{"topic_id": JOINED.id, "partitions": [0, 1, 2, 4, 5]}, ordinary]
    assert places().to_leaf(US, owned) == [{"topic_id": OF_US, "partitions": [0, 2]}, ordinary]
    assert places(is_known=False).to_leaf(US, owned) == [ordinary]
    assert places().to_leaf(EU, [ordinary]) == []


def test_what_a_leaf_has_of_an_assignment() -> None:
    of_eu = {JOINED.id: frozenset({0, 1})}
    assert places().has_some(EU, of_eu) and not places().has_some(US, of_eu)
    assert places().has_some(US, {JOINED.id: frozenset({4})})
    ordinary = TOPICS["us.a"][1]
    assert places().has_some(US, {ordinary: frozenset({0})})
    assert not places().has_some(US, {ordinary: frozenset()})


def test_what_a_leaf_assigns_is_told_by_the_numbers_of_clients() -> None:
    """Partition 3 is beyond the width."""
    assigned = [{"topic_id": OF_US, "partitions": [0, 3]}, {"topic_id": TOPICS["us.a"][1], "partitions": [3]}]
    assert places().to_clients(US, assigned) == {JOINED.id: frozenset({2}), TOPICS["us.a"][1]: frozenset({3})}

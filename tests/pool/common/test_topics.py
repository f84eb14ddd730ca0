"""Virtual topics: the upstream partitions behind those that clients see."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.pool.common.topics import ExplicitTopic, PrefixRule, Source, VirtualTopics
from mesh.records.spans import ClusterName, TopicName, UpstreamPartition

EU, US = ClusterName("eu"), ClusterName("us")
ORDERS, PARTS, EUROPE = TopicName("orders"), TopicName("parts"), TopicName("eu.orders")


def topics(*rules: PrefixRule, name: str = "vc") -> VirtualTopics:
    explicit = ExplicitTopic(ORDERS, (Source(EU, EUROPE), Source(US, ORDERS)))
    return VirtualTopics(name, [explicit], rules)


def behind(of: VirtualTopics, name: TopicName) -> list[tuple[ClusterName, int]]:
    return [(partition.cluster, partition.partition) for partition in of.partitions(name)]


def test_partitions_of_several_sources_are_concatenated_in_the_order_of_the_configuration() -> None:
    known = topics()
    assert known.update(EU, {EUROPE: 2})
    assert known.update(US, {ORDERS: 1})
    assert behind(known, ORDERS) == [(EU, 0), (EU, 1), (US, 0)]
    assert known.number(UpstreamPartition(US, ORDERS, 0)) == (ORDERS, 2)


def test_new_partitions_are_appended_and_none_is_renumbered() -> None:
    known = topics()
    known.update(EU, {EUROPE: 2})
    known.update(US, {ORDERS: 1})
    assert known.update(EU, {EUROPE: 3})
    assert behind(known, ORDERS) == [(EU, 0), (EU, 1), (US, 0), (EU, 2)]


@given(st.lists(st.tuples(st.sampled_from([EU, US]), st.integers(0, 5)), max_size=15))
def test_while_a_topic_is_there_its_partitions_keep_their_numbers(updates: list[tuple[ClusterName, int]]) -> None:
    known = topics()
    for cluster, count in updates:
        before = list(known.partitions(ORDERS))
        was_there = ORDERS in known
        changed = known.update(cluster, {EUROPE if cluster == EU else ORDERS: count})
        after = known.partitions(ORDERS)
        assert changed is (after != before)
        if was_there and ORDERS in known:
            assert after[: len(before)] == before
        assert [known.number(partition) for partition in after] == [(ORDERS, n) for n in range(len(after))]


def test_a_topic_is_there_while_one_of_its_sources_is() -> None:
    known = topics()
    known.update(EU, {EUROPE: 2})
    known.update(US, {ORDERS: 1})
    assert not known.update(EU, {})
    assert len(known.partitions(ORDERS)) == 3, "partitions of a lost source stay listed"
    assert known.update(US, {})
    assert ORDERS not in known
    assert known.partitions(ORDERS) == []
    assert known.name_of(known.topic_id(ORDERS)) is None
    assert known.number(UpstreamPartition(US, ORDERS, 0)) is None


def test_prefix_rules_are_tried_in_order_after_explicit_names() -> None:
    known = topics(PrefixRule("eu.", EU), PrefixRule("e", US))
    known.update(EU, {EUROPE: 1, TopicName("eu.a"): 1, TopicName("e1"): 1})
    known.update(US, {TopicName("eu.a"): 5, TopicName("e1"): 2, ORDERS: 1})
    assert known.names() == [TopicName("e1"), TopicName("eu.a"), ORDERS]
    assert behind(known, TopicName("eu.a")) == [(EU, 0)]
    assert behind(known, TopicName("e1")) == [(US, 0), (US, 1)]


def test_a_topic_that_feeds_an_explicit_one_does_not_appear_under_its_own_name() -> None:
    known = topics(PrefixRule("", EU))
    known.update(EU, {EUROPE: 1, PARTS: 1})
    assert known.names() == [ORDERS, PARTS]


def test_topics_that_no_rule_names_are_not_there() -> None:
    known = topics(PrefixRule("p", US))
    known.update(EU, {PARTS: 1})
    assert PARTS not in known
    assert known.might_exist(PARTS)
    assert known.might_exist(ORDERS)
    assert not known.might_exist(TopicName("x"))


def test_topic_ids_are_stable_distinct_and_not_zero() -> None:
    one, same, other = topics(), topics(), topics(name="other")
    assert one.topic_id(ORDERS) == same.topic_id(ORDERS)
    assert one.topic_id(ORDERS).int != 0
    assert len({one.topic_id(ORDERS), one.topic_id(PARTS), other.topic_id(ORDERS)}) == 3
    one.update(EU, {EUROPE: 1})
    assert one.name_of(one.topic_id(ORDERS)) == ORDERS


def test_partitions_that_are_not_there() -> None:
    known = topics()
    known.update(EU, {EUROPE: 1})
    assert known.partition(ORDERS, 0) == UpstreamPartition(EU, EUROPE, 0)
    assert known.partition(ORDERS, 1) is None
    assert known.partition(ORDERS, -1) is None
    assert known.partition(PARTS, 0) is None


def fed_by(*sources: Source, rules: tuple[PrefixRule, ...] = ()) -> VirtualTopics:
    return VirtualTopics("vc", [ExplicitTopic(ORDERS, sources)] if sources else [], rules)


def test_a_source_that_is_configured_no_longer_keeps_its_numbers() -> None:
    known = topics()
    known.update(EU, {EUROPE: 2})
    known.update(US, {ORDERS: 1})
    fewer = fed_by(Source(US, ORDERS))
    assert known.compare(fewer).left == {EU}
    assert not known.change(fewer)
    assert behind(known, ORDERS) == [(EU, 0), (EU, 1), (US, 0)]
    assert known.consumed(ORDERS) == [UpstreamPartition(US, ORDERS, 0)]
    assert not known.is_consumed(UpstreamPartition(EU, EUROPE, 0))
    known.change(topics())
    assert known.consumed(ORDERS) == known.partitions(ORDERS)
    assert behind(known, ORDERS) == [(EU, 0), (EU, 1), (US, 0)], "as before"


def test_a_topic_that_is_configured_no_longer_is_gone() -> None:
    known = topics(PrefixRule("p", EU))
    known.update(EU, {EUROPE: 2, PARTS: 1})
    difference = known.compare(topics())
    assert (difference.moves, set(difference.left)) == (False, {EU})
    assert known.change(topics())
    assert known.names() == [ORDERS]
    assert known.number(UpstreamPartition(EU, PARTS, 0)) is None


def test_a_source_that_is_added_is_appended() -> None:
    known = fed_by(Source(US, ORDERS))
    known.update(US, {ORDERS: 1})
    assert known.compare(topics()).left == frozenset()
    known.change(topics())
    known.update(EU, {EUROPE: 2})
    assert behind(known, ORDERS) == [(US, 0), (EU, 0), (EU, 1)]


def test_a_source_that_would_feed_another_topic_moves() -> None:
    known = topics(PrefixRule("", US))
    known.update(EU, {EUROPE: 1})
    known.update(US, {ORDERS: 1, PARTS: 1})
    assert known.compare(fed_by(Source(EU, EUROPE), Source(US, PARTS))).moves
    assert not known.compare(topics()).moves
    known.change(topics())
    assert known.compare(fed_by(Source(EU, EUROPE), rules=(PrefixRule("", US),))).moves is False


def test_a_topic_of_a_prefix_whose_cluster_changes_is_fed_by_the_new_one_alone() -> None:
    known = fed_by(rules=(PrefixRule("", US),))
    known.update(EU, {PARTS: 1})
    known.update(US, {PARTS: 2})
    other = fed_by(rules=(PrefixRule("", EU),))
    assert known.compare(other) == known.compare(other).__class__(False, frozenset({US}))
    assert known.change(other)
    assert behind(known, PARTS) == [(US, 0), (US, 1), (EU, 0)]
    assert known.consumed(PARTS) == [UpstreamPartition(EU, PARTS, 0)]


def test_what_is_withheld_is_not_consumed_and_is_none_of_what_is_left() -> None:
    known = topics()
    known.update(EU, {EUROPE: 1})
    known.withheld.add(EU)
    assert known.consumed(ORDERS) == []
    assert known.compare(fed_by(Source(US, ORDERS))).left == frozenset()

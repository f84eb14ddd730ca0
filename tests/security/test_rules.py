from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.security.principals import ANONYMOUS, EVERYBODY, Principal, user
from mesh.security.rules import (
    LONGEST_REMEMBERED,
    MOST_REMEMBERED,
    UNLIMITED,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    Rule,
    Rules,
)

ALICE, BOB = user("alice"), user("bob")
HOST = "10.0.0.1"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


def rule(
    *names: str,
    operations: set[Operation] | None = None,
    principals: set[Principal] | None = None,
    permission: Permission = Permission.ALLOW,
    resource_type: ResourceType = TOPIC,
    prefixed: bool = False,
    hosts: frozenset[str] = frozenset({"*"}),
) -> Rule:
    return Rule(
        principals=frozenset(principals or {ALICE}),
        permission=permission,
        operations=frozenset(operations or {Operation.READ}),
        resource_type=resource_type,
        names=names,
        pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        hosts=hosts,
    )


def allows(rules: Rules | list[Rule], operation: Operation, name: str, principal: Principal = ALICE) -> bool:
    rules = rules if isinstance(rules, Rules) else Rules(tuple(rules))
    return rules.access(principal, HOST).allows(operation, TOPIC, name)


def test_without_rules_everything_is_allowed() -> None:
    assert UNLIMITED.allows(Operation.DELETE, TOPIC, "orders")


def test_what_no_rule_allows_is_denied() -> None:
    rules = [rule("orders")]
    assert allows(rules, Operation.READ, "orders")
    assert not allows(rules, Operation.READ, "orders2")
    assert not allows(rules, Operation.WRITE, "orders")
    assert not allows(rules, Operation.READ, "orders", BOB)
    assert not Rules(tuple(rules)).access(ALICE, HOST).allows(Operation.READ, GROUP, "orders")


def test_prefixes_and_wildcards() -> None:
    assert allows([rule("ord", prefixed=True)], Operation.READ, "orders")
    assert not allows([rule("ord", prefixed=True)], Operation.READ, "or")
    assert allows([rule("*")], Operation.READ, "anything")
    assert not allows([rule("*", prefixed=True)], Operation.READ, "anything"), "a prefix is no wildcard"
    assert allows([rule("*", prefixed=True)], Operation.READ, "*thing")


@pytest.mark.parametrize("denied_first", [True, False])
def test_a_denial_wins(denied_first: bool) -> None:
    rules = [rule("*", operations={Operation.ALL}), rule("orders", permission=Permission.DENY)]
    rules = rules[::-1] if denied_first else rules
    assert not allows(rules, Operation.READ, "orders")
    assert allows(rules, Operation.DESCRIBE, "orders"), "to deny READ is not to deny DESCRIBE"
    assert allows(rules, Operation.READ, "others")


def test_reading_implies_describing_and_not_the_other_way_round() -> None:
    for operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER):
        assert allows([rule("orders", operations={operation})], Operation.DESCRIBE, "orders")
    assert not allows([rule("orders", operations={Operation.CREATE})], Operation.DESCRIBE, "orders")
    assert not allows([rule("orders", operations={Operation.DESCRIBE})], Operation.READ, "orders")
    denied = [rule("orders"), rule("orders", operations={Operation.DESCRIBE}, permission=Permission.DENY)]
    assert not allows(denied, Operation.DESCRIBE, "orders")
    assert allows(denied, Operation.READ, "orders")


def test_hosts() -> None:
    assert allows([rule("orders", hosts=frozenset({HOST, "10.0.0.2"}))], Operation.READ, "orders")
    assert not allows([rule("orders", hosts=frozenset({"10.0.0.2"}))], Operation.READ, "orders")


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::A", "2001:0db8::000a"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("::ffff:a00:1", "10.0.0.1"),
        ("fe80::1", "fe80::1%eth0"),
    ],
)
def test_an_address_is_the_same_however_it_is_written(written: str, seen: str) -> None:
    """Else a denial could be bypassed where a listener on :: sees IPv4 clients as IPv6 ones."""
    denied = [rule("*"), rule("*", permission=Permission.DENY, hosts=frozenset({written}))]
    for one, other in ((written, seen), (seen, written)):
        rules = Rules(tuple([rule("*"), replace(denied[1], hosts=frozenset({one}))]))
        assert not rules.access(ALICE, other).allows(Operation.READ, TOPIC, "orders")
        assert rules.access(ALICE, "10.0.0.99").allows(Operation.READ, TOPIC, "orders")


def test_what_is_no_address_is_compared_as_it_is() -> None:
    assert Rules((rule("*", hosts=frozenset({"here"})),)).access(ALICE, "here").allows(Operation.READ, TOPIC, "t")
    assert not Rules((rule("*", hosts=frozenset({"here"})),)).access(ALICE, "").allows(Operation.READ, TOPIC, "t")


def test_everybody_is_every_user_also_the_anonymous_one() -> None:
    rules = [rule("orders", principals={EVERYBODY})]
    assert all(allows(rules, Operation.READ, "orders", each) for each in (ALICE, BOB, ANONYMOUS))
    assert not allows(rules, Operation.READ, "orders", Principal("Group:staff"))


def test_super_users_may_do_everything() -> None:
    rules = Rules((rule("*", operations={Operation.ALL}, permission=Permission.DENY),), frozenset({ALICE}))
    assert allows(rules, Operation.DELETE, "orders")
    assert not allows(rules, Operation.READ, "orders", BOB)


def test_resources_without_any_rule() -> None:
    rules = Rules((rule("orders"),), allow_everyone_if_no_rule=True)
    assert allows(rules, Operation.READ, "others", BOB)
    assert not allows(rules, Operation.READ, "orders", BOB), "a rule is about it, if not about bob"


def test_decisions_are_remembered_and_the_memory_is_bounded() -> None:
    access = Rules((rule("topic-1", "topic-2499"),)).access(ALICE, HOST)
    for number in itertools.chain(range(2_500), range(2_500)):
        expected = number in (1, 2499)
        assert access.allows(Operation.READ, TOPIC, f"topic-{number}") is expected
    assert len(access._decisions) <= 1_000


def _model(rules: list[Rule], principal: Principal, host: str, operation: Operation, name: str) -> bool:
    """The same in KIP-801's words, one rule at a time."""
    found = False
    for each in rules:
        if not ({principal, EVERYBODY} & each.principals and {host, "*"} & each.hosts and each.resource_type is TOPIC):
            continue
        if each.pattern_type is PatternType.LITERAL:
            is_named = any(each_name in (name, "*") for each_name in each.names)
        else:
            is_named = any(name[: len(each_name)] == each_name for each_name in each.names)
        wanted = {operation, Operation.ALL}
        if operation is Operation.DESCRIBE and each.permission is Permission.ALLOW:
            wanted |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
        if operation is Operation.DESCRIBE_CONFIGS and each.permission is Permission.ALLOW:
            wanted.add(Operation.ALTER_CONFIGS)
        if is_named and wanted & each.operations:
            if each.permission is Permission.DENY:
                return False
            found = True
    return found


_RULES = st.builds(
    Rule,
    principals=st.sets(st.sampled_from([ALICE, BOB, EVERYBODY]), min_size=1).map(frozenset),
    permission=st.sampled_from(Permission),
    operations=st.sets(st.sampled_from(Operation), min_size=1).map(frozenset),
    resource_type=st.sampled_from(ResourceType),
    names=st.lists(st.sampled_from(["*", "a", "ab", "abc", "b"]), min_size=1).map(tuple),
    pattern_type=st.sampled_from(PatternType),
    hosts=st.sets(st.sampled_from(["*", HOST, "10.0.0.2"]), min_size=1).map(frozenset),
)


@given(
    st.lists(_RULES, max_size=5),
    st.sampled_from([ALICE, BOB]),
    st.sampled_from(Operation),
    st.sampled_from(["a", "ab", "abc", "c"]),
)
def test_decides_as_the_words_of_the_proposal(
    rules: list[Rule], principal: Principal, operation: Operation, name: str
) -> None:
    access = Rules(tuple(rules)).access(principal, HOST)
    expected = _model(rules, principal, HOST, operation, name)
    assert access.allows(operation, TOPIC, name) is expected
    assert access.allows(operation, TOPIC, name) is expected


@given(st.lists(_RULES, max_size=5), st.sampled_from(Operation), st.text("abc", max_size=4))
def test_what_is_allowed_for_all_names_is_allowed_for_each(rules: list[Rule], operation: Operation, name: str) -> None:
    access = Rules(tuple(rules)).access(ALICE, HOST)
    if access.allows_all(operation, TOPIC):
        assert access.allows(operation, TOPIC, name)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], False),
        ([rule("a")], False),
        ([rule("a", operations={Operation.WRITE})], True),
        ([rule("a", operations={Operation.ALL}, prefixed=True)], True),
        ([rule("a", operations={Operation.WRITE}, resource_type=GROUP)], False),
        ([rule("a", operations={Operation.WRITE}, principals={BOB})], False),
    ],
)
def test_whether_it_is_allowed_for_any_name(rules: list[Rule], expected: bool) -> None:
    assert Rules(tuple(rules)).access(ALICE, HOST).allows_any(Operation.WRITE, TOPIC) is expected


@pytest.mark.parametrize(
    ("allowed", "is_prefix", "denied", "denies_prefix", "expected"),
    [
        ("orders", False, "orders", False, False),
        ("orders", False, "ord", True, False),
        ("orders", False, "ord", False, True),
        ("orders", True, "orders", False, True),
        ("orders", True, "ord", True, False),
        ("orders", True, "orders.", True, True),
        ("*", False, "orders", True, True),
        ("*", False, "*", False, False),
        ("orders", False, "*", False, False),
    ],
)
def test_what_is_denied_of_all_that_is_allowed(
    allowed: str, is_prefix: bool, denied: str, denies_prefix: bool, expected: bool
) -> None:
    write = {Operation.WRITE}
    deny = rule(denied, operations=write, prefixed=denies_prefix, permission=Permission.DENY)
    access = Rules((rule(allowed, operations=write, prefixed=is_prefix), deny)).access(ALICE, HOST)
    assert access.allows_any(Operation.WRITE, TOPIC) is expected


def test_decisions_for_any_name_are_kept() -> None:
    """Each producer asks for one. With many rules it takes long."""
    access = Rules((rule("orders", operations={Operation.WRITE}),)).access(ALICE, HOST)
    assert access.allows_any(Operation.WRITE, TOPIC)
    access.mine = ()
    assert access.allows_any(Operation.WRITE, TOPIC)
    assert not access.allows_any(Operation.ALTER, TOPIC)


def test_for_any_name_where_what_no_rule_names_is_open() -> None:
    write = {Operation.WRITE}
    rules = Rules((rule("orders", operations=write, permission=Permission.DENY),), allow_everyone_if_no_rule=True)
    assert rules.access(ALICE, HOST).allows_any(Operation.WRITE, TOPIC)


def test_operations_as_a_bit_field() -> None:
    access = Rules((rule("orders", operations={Operation.READ, Operation.ALTER_CONFIGS}),)).access(ALICE, HOST)
    assert access.operations(TOPIC, "orders") == 1 << 3 | 1 << 8 | 1 << 10 | 1 << 11
    assert access.operations(TOPIC, "others") == 0
    everything = {
        ResourceType.TOPIC: 0b1101_1111_1000,
        ResourceType.GROUP: 0b1101_0100_1000,
        ResourceType.CLUSTER: 0b1_1111_1010_0000,
        ResourceType.TRANSACTIONAL_ID: 0b1_0001_0000,
    }
    assert {each: UNLIMITED.operations(each, "x") for each in ResourceType} == everything, "a broker says the same"


@pytest.mark.parametrize("character", ["x", "é", "🜁"])
def test_decisions_about_long_names_take_no_memory(character: str) -> None:
    access = Rules((rule("x", prefixed=True), rule("*", permission=Permission.DENY))).access(ALICE, HOST)
    fits = LONGEST_REMEMBERED // len(character.encode())
    tracemalloc.start()
    try:
        for number in range(MOST_REMEMBERED):
            for name in (character * 8_000 + str(number), f"{number:04}" + character * (fits - 3)):
                assert not access.allows(Operation.READ, GROUP, name)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20


def test_decisions_about_topics_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Rules((rule("x", prefixed=True),)).access(ALICE, HOST)
    names = ["x", "x" * 249, "y" * 249]
    before = [access.allows(Operation.READ, TOPIC, name) for name in names]
    monkeypatch.setattr(type(access), "_decide", None)
    assert [access.allows(Operation.READ, TOPIC, name) for name in names] == before == [True, True, False]

"""The story of the records of a member that left, told from the state before and after."""

from __future__ import annotations

from mesh.demo.display.story import Story
from tests.demo.snapshots import member, snapshot


def texts(story: Story) -> list[str]:
    return [event.text for event in story.events]


def story() -> Story:
    return Story(lambda member: member.client_id)


def test_members_come_and_go() -> None:
    told = story()
    told.add_snapshot(snapshot(0.0, member("a"), member("b", client_id="bee")))
    told.add_snapshot(snapshot(1.0, member("a")))
    assert texts(told) == [
        "a is a member of the group demo",
        "bee is a member of the group demo",
        "bee has left the group; it held no records",
    ]


def test_what_a_member_held_is_followed_to_its_heirs() -> None:
    told = story()
    told.add_snapshot(snapshot(0.0, member("a"), member("b", held=180), member("c")))
    told.add_snapshot(snapshot(1.0, member("a", redelivered=100), member("c")))
    told.add_snapshot(snapshot(2.0, member("a", redelivered=100), member("c", redelivered=79)))
    assert texts(told)[3:] == ["b is out of the group: the 180 records that it did not commit go to the others"]
    told.add_snapshot(snapshot(3.0, member("a", redelivered=100), member("c", redelivered=80)))
    assert texts(told)[4:] == ["b's 180 records came to a (100) and c (80)"]
    told.add_snapshot(snapshot(60.0, member("a", redelivered=100), member("c", redelivered=80)))
    assert len(told.events) == 5


def test_a_member_that_comes_at_the_same_time_may_be_an_heir() -> None:
    told = story()
    told.add_snapshot(snapshot(0.0, member("a", held=1)))
    told.add_snapshot(snapshot(1.0, member("b", redelivered=1)))
    assert texts(told)[-1] == "a's 1 record came to b (1)"


def test_of_two_that_went_the_first_is_told_first() -> None:
    told = story()
    told.add_snapshot(snapshot(0.0, member("a", held=10), member("b", held=5), member("c")))
    told.add_snapshot(snapshot(1.0, member("c", redelivered=12)))
    assert texts(told)[-1] == "a's 10 records came to c (10)"
    told.add_snapshot(snapshot(2.0, member("c", redelivered=17)))
    assert texts(told)[-1] == "b's 5 records came to c (7)"


def test_what_nobody_takes_is_told_too() -> None:
    told = story()
    told.add_snapshot(snapshot(0.0, member("a", held=10)))
    told.add_snapshot(snapshot(1.0))
    told.add_snapshot(snapshot(29.0))
    assert len(told.events) == 2
    told.add_snapshot(snapshot(31.5))
    assert texts(told)[-1] == "a's 10 records wait: no member takes them"


def test_records_given_again_without_a_death_are_no_event() -> None:
    told = story()
    told.add_snapshot(snapshot(0.0, member("a")))
    told.add_snapshot(snapshot(1.0, member("a", redelivered=10)))
    assert len(told.events) == 1

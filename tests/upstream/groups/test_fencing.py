"""A fenced process joins again when no other process holds its group.instance.id."""

from __future__ import annotations

from concurrent.futures import Future

from mesh.upstream.groups.descriptions import DescriptionUnavailable
from mesh.upstream.groups.fencing import BLIND, INTERVAL, Fence
from mesh.wire.client.groups import GroupDescription, GroupMember


class Group:
    """A group whose description arrives when a test says so."""

    def __init__(self) -> None:
        self.asked: list[Future[GroupDescription]] = []
        self.fence = Fence(self.describe, "ours")
        self.fence.fenced(0.0)

    def describe(self) -> Future[GroupDescription]:
        self.asked.append(Future())
        return self.asked[-1]

    def look(self, now: float, *instance_ids: str | None, is_refused: bool = False) -> bool:
        """Asks, answers, and looks at the answer."""
        before = len(self.asked)
        assert not self.fence.check_may_rejoin(now)
        assert len(self.asked) == before + 1, "it asks"
        assert not self.fence.check_may_rejoin(now), "and does not wait for the answer"
        if is_refused:
            self.asked[-1].set_exception(DescriptionUnavailable("error 30"))
        else:
            members = tuple(GroupMember(each, frozenset()) for each in instance_ids)
            self.asked[-1].set_result(GroupDescription("Stable", "range", members))
        return self.fence.check_may_rejoin(now)


def test_it_stays_out_while_another_holds_the_id() -> None:
    group = Group()
    assert not group.fence.check_may_rejoin(INTERVAL / 2)
    assert not group.asked
    assert not group.look(INTERVAL, "another", "ours")
    assert not group.fence.check_may_rejoin(INTERVAL * 1.5)
    assert len(group.asked) == 1
    assert group.look(INTERVAL * 2, "another", None)


def test_a_group_without_members_is_open() -> None:
    assert Group().look(INTERVAL)


def test_where_groups_may_not_be_described_it_tries_after_a_while() -> None:
    group = Group()
    assert not group.look(INTERVAL, is_refused=True)
    assert group.look(BLIND, is_refused=True)

"""The steps about a description, one by one; and all of them at once, with any failures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mesh.streams.description import TopologyDescription, description_of, tree_of
from mesh.streams.epochs import NONE, UNCERTAIN, Epochs
from mesh.streams.steps import (
    DELETION_FAILED,
    ApiError,
    ArmBackoff,
    CallResult,
    ChangeEpochs,
    ClearBackoff,
    DeleteTopology,
    DescribedStreamsGroup,
    Effect,
    Outcome,
    PluginOutcome,
    Push,
    SetTopology,
    Steps,
    delete,
    push,
)
from mesh.wire.errors import ErrorCode

Result = TypeVar("Result")
GROUP = DescribedStreamsGroup("g", topology_epoch=3, members=frozenset({"m"}), is_empty=False)
PUSH = Push("g", "m", 3, tree_of(TopologyDescription()))
DONE, GONE = (
    PluginOutcome(CallResult.DONE),
    DescribedStreamsGroup("g", ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
)
FAILED = ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED


def carried_out(steps: Steps[Result], outcomes: Iterable[Outcome]) -> tuple[Result, list[str]]:
    """The result, and the steps that led to it."""
    done: list[str] = []
    waiting = iter(outcomes)
    outcome: Outcome = None
    while True:
        try:
            effect = steps.send(outcome)
        except StopIteration as end:
            assert not list(waiting), "nothing else was done"
            return end.value, done
        outcome = None
        match effect:
            case ArmBackoff() | ClearBackoff():
                done.append(str(effect))
            case ChangeEpochs(change=change):
                done.append(str([change(Epochs(stored)).stored for stored in (NONE, UNCERTAIN)]))
                outcome = next(waiting)
            case SetTopology() | DeleteTopology():
                done.append(type(effect).__name__)
                outcome = next(waiting)


BARRIER, STORED, REFUSED, DELETED = "[-2, -2]", "[-2, 3]", "[-1, -2]", "[-1, -1]"
ARM, CLEAR = str(ArmBackoff("g", 3)), str(ClearBackoff("g", 3))


def test_a_push_writes_the_barrier_first_and_the_epoch_when_the_plugin_has_it() -> None:
    assert carried_out(push(PUSH, GROUP), [None, DONE, None]) == (ApiError(), [BARRIER, "SetTopology", STORED, CLEAR])


def test_a_permanent_failure_is_remembered() -> None:
    outcome = PluginOutcome(CallResult.PERMANENT, "too large")
    result = carried_out(push(PUSH, GROUP), [None, outcome, None])
    assert result == (ApiError(FAILED, "too large"), [BARRIER, "SetTopology", REFUSED, CLEAR])


def test_a_transient_failure_leaves_the_barrier() -> None:
    outcome = PluginOutcome(CallResult.TRANSIENT, "no room yet")
    result = carried_out(push(PUSH, GROUP), [None, outcome])
    assert result == (ApiError(FAILED, "no room yet"), [BARRIER, "SetTopology", ARM])


def test_without_the_barrier_the_plugin_is_not_called() -> None:
    assert carried_out(push(PUSH, GROUP), ["away"]) == (ApiError(FAILED, "away"), [BARRIER, ARM])


@pytest.mark.parametrize("kind", [CallResult.DONE, CallResult.PERMANENT])
def test_an_epoch_that_is_not_written_is_the_answer_and_clears_nothing(kind: CallResult) -> None:
    result, done = carried_out(push(PUSH, GROUP), [None, PluginOutcome(kind, "no"), "away"])
    assert (result, done[-1]) == (ApiError(FAILED, "away"), ARM)


@pytest.mark.parametrize(
    ("request_", "group", "error"),
    [
        (PUSH, replace(GROUP, may_read=False), ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)),
        (replace(PUSH, member=""), DescribedStreamsGroup("g", 30), ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)),
        (replace(PUSH, member="", group=""), GONE, ApiError(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")),
        (replace(PUSH, group=""), GONE, ApiError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")),
        (PUSH, GONE, ApiError(ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")),
        (PUSH, DescribedStreamsGroup("g", 16), ApiError(ErrorCode.NOT_COORDINATOR)),
        (
            replace(PUSH, member="other", epoch=9),
            GROUP,
            ApiError(ErrorCode.UNKNOWN_MEMBER_ID, "Member other is not a member of group g."),
        ),
        (
            replace(PUSH, epoch=9, description={"subtopologies": [], "global_stores": [{}]}),
            GROUP,
            ApiError(
                ErrorCode.INVALID_REQUEST, "Topology epoch 9 does not match the group's current topology epoch 3."
            ),
        ),
    ],
    ids=str,
)
def test_the_order_of_the_checks(request_: Push, group: DescribedStreamsGroup, error: ApiError) -> None:
    assert carried_out(push(request_, group), []) == (error, [])


def test_what_is_no_description_reaches_no_plugin() -> None:
    node = {"name": "n", "node_type": 9, "successors": []}
    bad = {"subtopologies": [{"subtopology_id": "0", "nodes": [node]}], "global_stores": []}
    result, done = carried_out(push(replace(PUSH, description=bad), GROUP), [])
    assert (result.code, done) == (ErrorCode.INVALID_REQUEST, [])


def test_a_deletion_writes_the_barrier_first() -> None:
    assert carried_out(delete("g"), [None, DONE, None]) == (ApiError(), [BARRIER, "DeleteTopology", DELETED])


@pytest.mark.parametrize("kind", [CallResult.PERMANENT, CallResult.TRANSIENT])
def test_a_failed_deletion_holds_the_group_back_and_does_not_say_why(kind: CallResult) -> None:
    result, done = carried_out(delete("g"), [None, PluginOutcome(kind, "secret")])
    assert (result, done) == (ApiError(ErrorCode.GROUP_DELETION_FAILED, DELETION_FAILED), [BARRIER, "DeleteTopology"])


@pytest.mark.parametrize("outcomes", [["away"], [None, DONE, "away"]])
def test_a_deletion_that_is_not_written_holds_the_group_back(outcomes: list[Outcome]) -> None:
    assert carried_out(delete("g"), outcomes)[0] == ApiError(ErrorCode.GROUP_DELETION_FAILED, "away")


class Fate(Enum):
    """The fate of a step."""

    DONE = "done, and answered"
    UNANSWERED = "done, and not answered"
    FAILED = "not done"
    REFUSED = "not done, for good"
    KILLED = "its process dies before"


FATES = st.sampled_from([*[Fate.DONE] * 10, *Fate])


class Descriptions(RuleBasedStateMachine):
    """One group: its pushes and deletions, one after the other in each process, and interleaved between two processes.
    Writes and plugins fail, with and without an effect, and processes die in between.

    Whenever no operation is in progress: stored = n only if the plugin has n.
    """

    def __init__(self) -> None:
        super().__init__()
        self.epochs = Epochs()
        self.has: int | None = None
        self.under_way: dict[int, tuple[int | None, Steps[ApiError], Effect]] = {}
        """By process: the pushed epoch, None for a deletion; and the next step."""
        self.beside_another: set[int] = set()
        """Processes whose operation ran together with one of the other process."""

    @rule(process=st.integers(0, 1), epoch=st.none() | st.integers(0, 1), fate=FATES)
    def go_on(self, process: int, epoch: int | None, fate: Fate) -> None:
        """epoch: of the operation that begins, if none is in progress."""
        if process not in self.under_way:
            self.beside_another.discard(process)
            # A group's epoch changes only when the group is created again: two processes never push different ones at
            # once.
            pushed = {each for each, _, _ in self.under_way.values()} - {None, epoch}
            if epoch is None or not pushed:
                steps = delete("g") if epoch is None else push(replace(PUSH, epoch=epoch), of_epoch(epoch))
                self.under_way[process] = epoch, steps, next(steps)
            return
        epoch, steps, effect = self.under_way[process]
        if len(self.under_way) > 1:
            self.beside_another = set(self.under_way)
        if epoch is None and process in self.beside_another:
            # If a deletion ends before its last write, beside a push of another process, nothing shows afterwards which
            # of them the plugin saw last. Brokers have the same gap.
            fate = Fate.DONE
        if fate is Fate.KILLED:
            del self.under_way[process]
            return
        try:
            self.under_way[process] = epoch, steps, steps.send(self.outcome(effect, fate))
        except StopIteration:
            del self.under_way[process]

    def outcome(self, effect: Effect, fate: Fate) -> Outcome:
        happens = fate in (Fate.DONE, Fate.UNANSWERED)
        match effect:
            case ChangeEpochs(change=change):
                if happens:
                    self.epochs = change(self.epochs)
                return None if fate is Fate.DONE else "no answer"
            case SetTopology(epoch=epoch):
                self.has = epoch if happens else self.has
            case DeleteTopology():
                self.has = None if happens else self.has
            case ArmBackoff() | ClearBackoff():
                return None
        kinds = {Fate.DONE: CallResult.DONE, Fate.REFUSED: CallResult.PERMANENT}
        return PluginOutcome(kinds.get(fate, CallResult.TRANSIENT))

    @invariant()
    def what_is_stored_is_there(self) -> None:
        if not self.under_way and self.epochs.stored >= 0:
            assert self.has == self.epochs.stored

    @invariant()
    def epochs_are_what_they_may_be(self) -> None:
        assert self.epochs.stored >= UNCERTAIN
        assert self.epochs.failed >= NONE


def of_epoch(epoch: int) -> DescribedStreamsGroup:
    return replace(GROUP, topology_epoch=epoch)


TestDescriptions = Descriptions.TestCase


def test_the_double_of_a_description_is_one() -> None:
    assert description_of(PUSH.description) == TopologyDescription()


TestDescriptions.settings = settings(max_examples=300, stateful_step_count=40)

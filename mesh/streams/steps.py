"""The operations on a group's description, as steps for a caller to carry out.

Each operation is a generator: it yields steps, is sent their outcomes, and returns its result. Several may run at once,
for the same group, too; `mesh.streams.epochs` explains why that is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

from mesh.streams.description import InvalidDescription, TopologyDescription, description_of
from mesh.streams.epochs import Epochs, about_to_change, was_deleted, was_refused, was_set
from mesh.wire.errors import ErrorCode

Result = TypeVar("Result")

DELETION_FAILED: Final = "Topology description plugin failed to delete the topology."


# Steps


@dataclass(frozen=True, slots=True)
class ChangeEpochs:
    """A step that changes the epochs of a group by a function. Outcome: None, or the reason of a failure."""

    group: str
    change: Callable[[Epochs], Epochs]


@dataclass(frozen=True, slots=True)
class SetTopology:
    """A step that gives a description to the plugin. Outcome: a `PluginOutcome`."""

    group: str
    epoch: int
    description: TopologyDescription


@dataclass(frozen=True, slots=True)
class DeleteTopology:
    """A step that makes the plugin delete the description of a group. Outcome: a `PluginOutcome`."""

    group: str


@dataclass(frozen=True, slots=True)
class ArmBackoff:
    """A step that begins a pause, after a failure that may pass. No outcome."""

    group: str
    epoch: int


@dataclass(frozen=True, slots=True)
class ClearBackoff:
    """A step that ends a pause. No outcome."""

    group: str
    epoch: int


Effect: TypeAlias = ChangeEpochs | SetTopology | DeleteTopology | ArmBackoff | ClearBackoff


# Outcomes


class CallResult(Enum):
    """The way in which a call of the plugin ended."""

    DONE = "done"
    PERMANENT = "permanent"
    TRANSIENT = "transient"


@dataclass(frozen=True, slots=True)
class PluginOutcome:
    """The outcome of a call of the plugin. message: the plugin's message, if the call failed."""

    result: CallResult
    message: str | None = None


Outcome: TypeAlias = PluginOutcome | str | None
Steps: TypeAlias = Generator[Effect, Outcome, Result]


# Push


@dataclass(frozen=True, slots=True)
class DescribedStreamsGroup:
    """A streams group, as its cluster describes it to the client. error: the reason if it does not. may_read,
    may_delete: the client's permissions. is_empty: True if the group has no members."""

    group: str
    error: int = ErrorCode.NONE
    message: str | None = None
    topology_epoch: int = -1
    members: frozenset[str] = frozenset()
    is_empty: bool = True
    may_read: bool = True
    may_delete: bool = True


@dataclass(frozen=True, slots=True)
class Push:
    """A request to store a description. description: a tree."""

    group: str
    member: str
    epoch: int
    description: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error in a response."""

    code: int = ErrorCode.NONE
    message: str | None = None


def push(request: Push, group: DescribedStreamsGroup) -> Steps[ApiError]:
    """Stores a pushed description, after the checks of a broker in their order. Returns the response to the member."""
    if (refusal := _refusal(request, group)) is not None:
        return refusal
    try:
        description = description_of(request.description)
    except InvalidDescription as invalid:
        return ApiError(ErrorCode.INVALID_REQUEST, str(invalid))
    deletions = 0

    def begin(epochs: Epochs) -> Epochs:
        nonlocal deletions
        deletions = epochs.deletions
        return about_to_change(epochs)

    if (problem := (yield ChangeEpochs(request.group, begin))) is not None:
        yield ArmBackoff(request.group, request.epoch)
        return _failed(problem)
    outcome = yield SetTopology(request.group, request.epoch, description)
    assert isinstance(outcome, PluginOutcome)
    if outcome.result is CallResult.TRANSIENT:
        yield ArmBackoff(request.group, request.epoch)
        return _failed(outcome.message)
    is_done = outcome.result is CallResult.DONE

    def end(epochs: Epochs) -> Epochs:
        return was_set(epochs, request.epoch, deletions) if is_done else was_refused(epochs, request.epoch)

    if (problem := (yield ChangeEpochs(request.group, end))) is not None:
        yield ArmBackoff(request.group, request.epoch)
        return _failed(problem)
    yield ClearBackoff(request.group, request.epoch)
    return ApiError() if is_done else _failed(outcome.message)


def _refusal(request: Push, group: DescribedStreamsGroup) -> ApiError | None:
    if group.error == ErrorCode.GROUP_AUTHORIZATION_FAILED or (group.error == ErrorCode.NONE and not group.may_read):
        return ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.member:
        return ApiError(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    if not request.group:
        return ApiError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if group.error != ErrorCode.NONE:
        return ApiError(group.error, group.message)
    if request.member not in group.members:
        return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {request.member} is not a member of group {group.group}.")
    if request.epoch != group.topology_epoch:
        current = group.topology_epoch
        text = f"Topology epoch {request.epoch} does not match the group's current topology epoch {current}."
        return ApiError(ErrorCode.INVALID_REQUEST, text)
    return None


def _failed(message: Outcome) -> ApiError:
    assert not isinstance(message, PluginOutcome)
    return ApiError(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, message)


# Delete


def delete(group: str) -> Steps[ApiError]:
    """Deletes the description of a group that is about to be deleted, or is gone. If this returns an error, the group
    must not be deleted."""
    if (problem := (yield ChangeEpochs(group, about_to_change))) is not None:
        return _held_back(problem)
    outcome = yield DeleteTopology(group)
    assert isinstance(outcome, PluginOutcome)
    if outcome.result is not CallResult.DONE:
        return _held_back(DELETION_FAILED)
    if (problem := (yield ChangeEpochs(group, was_deleted))) is not None:
        return _held_back(problem)
    return ApiError()


def _held_back(message: Outcome) -> ApiError:
    assert not isinstance(message, PluginOutcome)
    return ApiError(ErrorCode.GROUP_DELETION_FAILED, message)


# Describe


class DescriptionStatus(Enum):
    """The status of a description in StreamsGroupDescribe."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3

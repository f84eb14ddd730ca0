"""What is done about a group's description, as steps that somebody else carries out.

Each operation is a generator: it yields what is to be done and is sent what came of it, and returns its result. Several
of them may be under way at once, for the same group, too; `mesh.streams.epochs` says why that is safe.
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


# What is to be done


@dataclass(frozen=True, slots=True)
class ChangeEpochs:
    """Write the epochs of a group as this makes them of what they are. Its outcome: None, or why that failed."""

    group: str
    change: Callable[[Epochs], Epochs]


@dataclass(frozen=True, slots=True)
class SetTopology:
    """Give a description to the plugin. Its outcome: a `PluginOutcome`."""

    group: str
    epoch: int
    description: TopologyDescription


@dataclass(frozen=True, slots=True)
class DeleteTopology:
    """Have the plugin delete the description of a group. Its outcome: a `PluginOutcome`."""

    group: str


@dataclass(frozen=True, slots=True)
class Arm:
    """Begin a pause, after a failure that may pass. No outcome."""

    group: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Clear:
    """End a pause. No outcome."""

    group: str
    epoch: int


Effect: TypeAlias = ChangeEpochs | SetTopology | DeleteTopology | Arm | Clear


# What came of it


class Kind(Enum):
    """How a call of the plugin ended."""

    DONE = "done"
    PERMANENT = "permanent"
    TRANSIENT = "transient"


@dataclass(frozen=True, slots=True)
class PluginOutcome:
    """The end of a call of the plugin. message: of one that failed."""

    kind: Kind
    message: str | None = None


Outcome: TypeAlias = PluginOutcome | str | None
Steps: TypeAlias = Generator[Effect, Outcome, Result]


# Push


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A streams group, as its cluster describes it to the client. error: why it does not. may_read, may_delete: what
    the client may do. is_empty: it has no members."""

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
    """A request to take a description. description: a tree."""

    group: str
    member: str
    epoch: int
    description: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error in an answer."""

    code: int = ErrorCode.NONE
    message: str | None = None


def push(request: Push, group: DescribedGroup) -> Steps[ApiError]:
    """What the member that pushed is answered; in the order of a broker's checks."""
    if (refusal := _refusal(request, group)) is not None:
        return refusal
    try:
        description = description_of(request.description)
    except InvalidDescription as invalid:
        return ApiError(ErrorCode.INVALID_REQUEST, str(invalid))
    if (problem := (yield ChangeEpochs(request.group, about_to_change))) is not None:
        yield Arm(request.group, request.epoch)
        return _failed(problem)
    outcome = yield SetTopology(request.group, request.epoch, description)
    assert isinstance(outcome, PluginOutcome)
    if outcome.kind is Kind.TRANSIENT:
        yield Arm(request.group, request.epoch)
        return _failed(outcome.message)
    change = was_set if outcome.kind is Kind.DONE else was_refused
    if (problem := (yield ChangeEpochs(request.group, lambda epochs: change(epochs, request.epoch)))) is not None:
        yield Arm(request.group, request.epoch)
        return _failed(problem)
    yield Clear(request.group, request.epoch)
    return ApiError() if outcome.kind is Kind.DONE else _failed(outcome.message)


def _refusal(request: Push, group: DescribedGroup) -> ApiError | None:
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
    """Of a group that is about to be deleted, or is gone. An error holds the group back."""
    if (problem := (yield ChangeEpochs(group, about_to_change))) is not None:
        return _held_back(problem)
    outcome = yield DeleteTopology(group)
    assert isinstance(outcome, PluginOutcome)
    if outcome.kind is not Kind.DONE:
        return _held_back(DELETION_FAILED)
    if (problem := (yield ChangeEpochs(group, was_deleted))) is not None:
        return _held_back(problem)
    return ApiError()


def _held_back(message: Outcome) -> ApiError:
    assert not isinstance(message, PluginOutcome)
    return ApiError(ErrorCode.GROUP_DELETION_FAILED, message)


# Describe


class DescriptionStatus(Enum):
    """What StreamsGroupDescribe says of a description."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3

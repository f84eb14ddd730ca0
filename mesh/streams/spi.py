"""The interface of a plugin that keeps topology descriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from mesh.streams.description import TopologyDescription


class PermanentFailure(Exception):
    """Raised when a description cannot be kept, now or later. The client gets the message, and is not asked again."""


class NoOptions(BaseModel):
    """The options of a plugin that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TopologyPlugin(ABC):
    """A plugin that keeps the descriptions of one virtual cluster's groups.

    Its constructor may run in a thread, all other methods on the event loop: they must not block. Each may be called
    again with the same arguments, and several at once. `set_topology` raises PermanentFailure, or anything else for a
    failure that may pass; an exception before its first await counts as permanent. A call that takes longer than 10 s
    has failed, too.

    options: a model of the `options` in the configuration.
    """

    options: ClassVar[type[BaseModel]] = NoOptions

    def __init__(self, options: Any, virtual_cluster: str) -> None:  # noqa: B027 - a plugin may need neither
        """options: an instance of the class's `options` model."""

    @abstractmethod
    async def set_topology(self, group: str, epoch: int, description: TopologyDescription) -> None:
        """Stores the description in place of the group's old one."""

    @abstractmethod
    async def get_topology(self, group: str, epoch: int) -> TopologyDescription | None:
        """Returns the description of a group in this epoch; None if there is none."""

    @abstractmethod
    async def delete_topology(self, group: str) -> None:
        """Deletes the descriptions of all epochs of a group. It succeeds if there is none."""

    async def close(self) -> None:  # noqa: B027 - not every plugin has something to close
        """Called when the virtual cluster has ended."""

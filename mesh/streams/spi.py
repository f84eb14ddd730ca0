"""What a plugin implements that keeps topology descriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from mesh.streams.description import TopologyDescription


class PermanentFailure(Exception):
    """A description cannot be kept, now or later; the client is told the message, and not asked again."""


class NoOptions(BaseModel):
    """The options of a plugin that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TopologyPlugin(ABC):
    """Keeps the descriptions of one virtual cluster's groups.

    Its methods run on the event loop: they must not block. Each may be called again with the same arguments, and
    several at once. `set_topology` raises PermanentFailure, or anything else for a failure that may pass; what it
    raises before its first await counts as permanent. One that takes longer than 10 s has failed, too.

    options: a model of what stands under `options` in the configuration.
    """

    options: ClassVar[type[BaseModel]] = NoOptions

    def __init__(self, options: Any, virtual_cluster: str) -> None:  # noqa: B027 - a plugin may need neither
        """options: an instance of that model."""

    @abstractmethod
    async def set_topology(self, group: str, epoch: int, description: TopologyDescription) -> None:
        """Keep it in place of what there is of the group."""

    @abstractmethod
    async def get_topology(self, group: str, epoch: int) -> TopologyDescription | None:
        """None if it is not there."""

    @abstractmethod
    async def delete_topology(self, group: str) -> None:
        """Of all epochs; also if there is none."""

    async def close(self) -> None:  # noqa: B027 - not every plugin has something to close
        """The virtual cluster has ended."""

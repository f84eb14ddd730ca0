"""The configuration of topology descriptions of streams groups."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from mesh.config.base import Model


class TopologyDescriptionsConfig(Model):
    """Serves topology descriptions of streams groups, for clusters that have such groups but no descriptions."""

    plugin: str = Field(
        default="store",
        description="store, memory, http, or the name of an entry point of kafka_mesh.topology_plugins.",
    )
    options: dict[str, Any] = Field(default_factory=dict, repr=False, description="The options of the plugin.")

"""The configuration of moves of topics from one cluster of a router to another."""

from __future__ import annotations

from pydantic import Field

from mesh.config.base import Model
from mesh.config.values import Duration


class MovesConfig(Model):
    """Lets operators move topics between the clusters of a router, while clients write and read them."""

    hold: Duration = Field(default=5.0, description="How long the mesh may hold producers at a cut.")

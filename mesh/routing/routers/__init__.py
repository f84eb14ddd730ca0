"""The types of routers that are part of kafka-mesh."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from mesh.routing.routers.clients import ClientsFactory
from mesh.routing.routers.topics import TopicsFactory
from mesh.routing.spi import RouterFactory

SHIPPED: Final[Mapping[str, type[RouterFactory[Any, Any]]]] = MappingProxyType(
    {"clients": ClientsFactory, "topics": TopicsFactory}
)
"""Router types by their `type` in the configuration."""

"""The listeners of a virtual cluster: the first is its own `listen`, a relay may have more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, NewType

from pydantic import Field

from mesh.config.base import Model
from mesh.config.mistakes import KeyPath
from mesh.config.relay import NodesConfig
from mesh.config.security.model import ListenerTls
from mesh.config.values import Address, Endpoint, matching

ListenerName = NewType("ListenerName", str)

FIRST: Final = ListenerName("")
"""What the listener is called that the virtual cluster has by its own `listen`."""
_NAME = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "at most 100 letters, digits, dots, underscores and hyphens")


class ListenerConfig(Model):
    """A further listener of a relay: its clients are told of no addresses but its own."""

    name: Annotated[ListenerName, _NAME] = Field(description="In logs, and where addresses are shown.")
    listen: Endpoint = Field(description="Address of the bootstrap server.")
    nodes: NodesConfig = Field(description="Where its clients reach each node.")
    advertise: Endpoint | None = Field(default=None, description="What its clients connect to in place of `listen`.")
    tls: ListenerTls | None = Field(default=None, description="Encryption, on all of its addresses.")


@dataclass(frozen=True, slots=True)
class ConfiguredListener:
    """A listener, wherever it stands in the file. path: of its keys within the virtual cluster."""

    name: ListenerName
    path: KeyPath
    listen: Address
    advertised: Address
    nodes: NodesConfig | None
    tls: ListenerTls | None


def further_listener(configured: ListenerConfig, index: int) -> ConfiguredListener:
    """index: in the list of its virtual cluster."""
    path: KeyPath = ("listeners", index)
    advertised = configured.advertise or configured.listen
    return ConfiguredListener(configured.name, path, configured.listen, advertised, configured.nodes, configured.tls)

"""The listeners of a virtual cluster: the first one is its own `listen`, and a relay may have more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, NewType

from pydantic import Field

from mesh.config.base import Model
from mesh.config.mistakes import KeyPath
from mesh.config.relay import AnyNodes, NodesConfig, OneNode
from mesh.config.security.model import ListenerTls
from mesh.config.values import Address, Endpoint, matching

ListenerName = NewType("ListenerName", str)

FIRST: Final = ListenerName("")
"""The name of the listener at the virtual cluster's own `listen`."""
_NAME = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "at most 100 letters, digits, dots, underscores and hyphens")


class ListenerConfig(Model):
    """A further listener of a relay. Its clients learn only its addresses."""

    name: Annotated[ListenerName, _NAME] = Field(description="Its name in logs, and where addresses are shown.")
    listen: Endpoint = Field(description="Address of the bootstrap server.")
    nodes: AnyNodes = Field(description="The addresses at which its clients reach each node, or one for all.")
    advertise: Endpoint | None = Field(
        default=None, description="The address that its clients get in place of `listen`."
    )
    tls: ListenerTls | None = Field(default=None, description="Encryption, on all of its addresses.")


@dataclass(frozen=True, slots=True)
class ConfiguredListener:
    """A listener, the first or a further one. path: the path of its keys within the virtual cluster. nodes: None if
    clients see all nodes as one."""

    name: ListenerName
    path: KeyPath
    listen: Address
    advertised: Address
    nodes: NodesConfig | None
    tls: ListenerTls | None


def further_listener(configured: ListenerConfig, index: int) -> ConfiguredListener:
    """Returns the listener of an entry of `listeners`. index: its index in that list."""
    path: KeyPath = ("listeners", index)
    advertised = configured.advertise or configured.listen
    nodes = None if isinstance(configured.nodes, OneNode) else configured.nodes
    return ConfiguredListener(configured.name, path, configured.listen, advertised, nodes, configured.tls)

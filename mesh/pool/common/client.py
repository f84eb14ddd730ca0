"""Who asks, as far as one client can be told from another before it has named a group.

Peers choose their client.id, and several consumers share one; the host and the principal are what the mesh knows. A
member belongs to one client for as long as it lives: nobody else is given its records, or speaks in its name.
"""

from __future__ import annotations

from dataclasses import dataclass

from mesh.security.principals import ANONYMOUS, Principal


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """A client, as far as it can be told from others before it has named a group. id: its client.id. host: an address.
    principal: as who it authenticated."""

    id: str
    host: str
    principal: Principal = ANONYMOUS

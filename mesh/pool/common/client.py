"""The identity of a client before it has named a group.

Clients choose their client.id, and several consumers may use the same one. The mesh determines the host and the
principal. A member belongs to one client for its whole life: no other client gets its records, or acts for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from mesh.security.principals import ANONYMOUS, Principal


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The identity of a client before it has named a group. id: its client.id. host: its address. principal: the result
    of its authentication."""

    id: str
    host: str
    principal: Principal = ANONYMOUS

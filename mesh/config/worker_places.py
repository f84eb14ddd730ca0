"""The addresses of one of several processes that serve the same configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mesh.config.values import Address

MOST_WORKERS: Final = 64
PORTS: Final = 2
"""The number of ports of one process for each pool: for its broker and its coordinator."""


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """One of several processes. number: counted from 1. bootstrap: the address of a pool that all processes share; None
    for other targets, which share all addresses."""

    number: int
    bootstrap: Address | None = None

    def own(self, address: Address) -> Address:
        """Returns this process's own address for a configured one: some ports higher."""
        return Address(address.host, address.port + PORTS * self.number)

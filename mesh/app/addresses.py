"""The addresses on which a process listens. A reload binds new ones before anything changes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from ipaddress import ip_address

from mesh.app.configured_target import ListenAddress
from mesh.app.targets import addresses_of
from mesh.config.mistakes import ConfigurationError, KeyPath, Mistake
from mesh.config.model import Config, VirtualClusterConfig
from mesh.config.routers import RouterConfig
from mesh.config.values import Address
from mesh.listener.bound_address import BoundAddress, Place


class Addresses:
    """The bound addresses of all virtual clusters. `prepare` binds and reserves, and changes nothing else."""

    def __init__(self) -> None:
        self._bound: dict[Address, BoundAddress] = {}
        self._common: set[Address] = set()

    def __getitem__(self, address: Address) -> BoundAddress:
        return self._bound[address]

    async def prepare(self, config: Config, names: Collection[str]) -> Mapping[Address, BoundAddress]:
        """Binds the new addresses of a configuration, and takes the descriptors with which the virtual clusters with
        these names will listen. Raises ConfigurationError if an address is not free, and OSError if no descriptor is
        left. Then it keeps nothing new."""
        bound: dict[Address, BoundAddress] = {}
        try:
            for index, each in enumerate(config.virtual_clusters):
                for wanted in addresses_of(each, config.routers):
                    if wanted.address not in self._bound:
                        path = ("virtual_clusters", index, *wanted.path)
                        bound[wanted.address] = await self._bind(wanted, path, bound)
            known = self._bound | bound
            for address in _wanted((each for each in config.virtual_clusters if each.name in names), config.routers):
                known[address].reserve()
        except BaseException:
            self._discard(bound)
            raise
        return bound

    def _discard(self, bound: Mapping[Address, BoundAddress]) -> None:
        for each in bound.values():
            each.close()
        self.release()

    def release(self) -> None:
        """Gives back descriptors that a change did not need."""
        for each in self._bound.values():
            each.release()

    def take_over(self, bound: Mapping[Address, BoundAddress]) -> None:
        self._bound |= bound

    def serves_all(self, address: Address) -> None:
        """Notes that other processes share an address."""
        self._common.add(address)

    def keep_only(self, config: Config) -> None:
        """Closes the addresses that a configuration does not name."""
        wanted = set(_wanted(config.virtual_clusters, config.routers))
        for address in [address for address in self._bound if address not in wanted]:
            self._bound.pop(address).close()
            self._common.discard(address)

    def leave_common(self) -> None:
        """Stops listening at the addresses that other processes share: new clients reach those processes, and connected
        clients stay."""
        for address in self._common:
            self._bound[address].close()
        self._common.clear()

    def close(self) -> None:
        """Closes all addresses. Raises the last error if some cannot be closed."""
        with ExitStack() as closing:
            for each in self._bound.values():
                closing.callback(each.close)

    async def _bind(self, wanted: ListenAddress, path: KeyPath, bound: dict[Address, BoundAddress]) -> BoundAddress:
        address = wanted.address
        try:
            places = await _places_of(address)
            for other, each in (self._bound | bound).items():
                if _overlap(places, each.places):
                    allowed = (
                        f"an address that does not overlap {other}, which this process already has; use another port, "
                        "or restart kafka-mesh"
                    )
                    raise ConfigurationError([Mistake(path, str(address), allowed)])
            return await BoundAddress.bind(address, is_common=wanted.is_common)
        except OSError as problem:
            mistake = Mistake(path, str(address), f"an address that is free ({problem})")
            raise ConfigurationError([mistake]) from problem


def _wanted(configured: Iterable[VirtualClusterConfig], routers: Sequence[RouterConfig]) -> Iterable[Address]:
    return (wanted.address for each in configured for wanted in addresses_of(each, routers))


async def _places_of(address: Address) -> frozenset[Place]:
    """Resolves an address. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    return frozenset((str(each[4][0]), int(each[4][1])) for each in found)


def _overlap(left: Collection[Place], right: Collection[Place]) -> bool:
    return any(_is_shared(one, other) for one in left for other in right)


def _is_shared(one: Place, other: Place) -> bool:
    """Returns whether two sockets cannot both listen: the same port, and the same host or a wildcard of its family."""
    (host, port), (other_host, other_port) = one, other
    left, right = ip_address(host), ip_address(other_host)
    is_same = left == right or left.is_unspecified or right.is_unspecified
    return port == other_port and left.version == right.version and is_same

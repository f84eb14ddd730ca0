"""Who is let in, and how much of the mesh one client may use: decisions only, no IO; times in seconds.

A client is an address here: an IPv4 address, or a /64 network of IPv6, which one host has for itself. Three things are
bounded: connections (of the process by its open files, of a virtual cluster, of an address), requests per second (of a
connection, of an address), and bytes that clients do not read.

Requests are rationed as Kafka does it (KIP-124, KIP-219): one above the quota is carried out and answered at once, with
the time in `throttle_time_ms` for which nothing more is taken up from its connection. A Fetch that brings new
records is no load but the work itself, and costs nothing; one that only brings again what was sent is one like others.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final, Literal, TypeAlias

from mesh.memory import MemoryBudget

Closed: TypeAlias = Literal[
    "too_many_connections",
    "too_many_connections_of_address",
    "no_descriptor_left",
    "idle",
    "unfinished_frame",
    "not_reading",
    "too_much_unread",
]
"""Why a connection is refused or closed, where it is not a protocol error."""

LONGEST_THROTTLE: Final = 1.0
"""Seconds. Clients count it against the time-out of their next request, so it is short; Kafka's default is the same."""
KEPT_FOR_OTHERS: Final = 200
"""Descriptors that are not for clients: connections to upstream clusters, files, the admin address. An eighth of all of
them, if that is more."""

FEW_ADDRESSES: Final = 1_000
"""So many are remembered without looking whether they still matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one virtual cluster: docs/configuration.md, `limits`. Times in seconds, sizes in bytes, rates per second."""

    connections: int = 10_000
    connections_per_address: int = 5_000
    request: int | None = None
    """The largest request; None: what is usual for the target."""
    idle_timeout: float = 600.0
    frame_timeout: float = 30.0
    write_timeout: float = 60.0
    unread: int = 64 << 20
    send_buffer: int | None = 256 << 10
    """Of each connection, in the kernel (SO_SNDBUF); None: as large as the system lets it become."""
    request_rate: int = 1_000
    request_rate_per_address: int = 2_000


class RequestQuota:
    """A token bucket: `rate` requests a second, and as many at once after a second of rest."""

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: int, now: float) -> None:
        self.rate = rate
        self._left = float(rate)
        self._at = now

    def take(self, now: float) -> float:
        """One request was answered. Returns for how long its client must rest, 0 for not at all."""
        self._refill(now)
        self._left = max(self._left - 1.0, -self.rate * LONGEST_THROTTLE)
        return 0.0 if self._left >= 0 else -self._left / self.rate

    def is_rested(self, now: float) -> bool:
        """Whether nothing is known here that a new bucket would not say."""
        self._refill(now)
        return self._left >= self.rate

    def _refill(self, now: float) -> None:
        self._left = min(self._left + (now - self._at) * self.rate, float(self.rate))
        self._at = now


class Descriptors:
    """Open files of this process. for_clients: how many connections they suffice for. used: by clients, and by what is
    opened towards brokers for one client alone."""

    def __init__(self, available: int) -> None:
        self.available = available
        self.for_clients = max(available - max(KEPT_FOR_OTHERS, available // 8), 1)
        self.used = 0


def raise_descriptor_limit() -> int:
    """Lets this process open as many files as it is allowed to (RLIMIT_NOFILE), and returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # some systems name a hard limit that they do not allow
        return _number(soft)
    return _number(hard)


def _number(limit: int) -> int:
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit


@dataclass(slots=True, eq=False)
class ClientAddress:
    """Where several connections may come from."""

    quota: RequestQuota
    connections: int = 0


@dataclass(slots=True, eq=False)
class Admitted:
    """A connection that was let in."""

    host: str
    address: ClientAddress
    quota: RequestQuota
    unread: int = field(default=0)


class Gate:
    """Of one virtual cluster. descriptors, memory: shared by all of the process.

    most_unread: bytes that clients may let wait for them. They count as records do, and are a quarter of the budget at
    most: otherwise clients that do not read could keep everybody else from getting records.
    """

    def __init__(self, limits: Limits, descriptors: Descriptors, memory: MemoryBudget | None = None) -> None:
        self.limits = limits
        self._descriptors = descriptors
        self._memory = memory or MemoryBudget(4 * limits.unread)
        self._addresses: dict[str, ClientAddress] = {}
        self._swept_beyond = FEW_ADDRESSES
        self.connections = 0
        self.unread = 0

    @property
    def most_unread(self) -> int:
        return min(self.limits.unread, self._memory.limit // 4)

    def change(self, limits: Limits, admitted: Iterable[Admitted]) -> None:
        """Other limits from now on; admitted: all connections that are there."""
        self.limits = limits
        for address in self._addresses.values():
            address.quota.rate = limits.request_rate_per_address
        for each in admitted:
            each.quota.rate = limits.request_rate

    def enter(self, host: str, now: float) -> Admitted | Closed:
        """A connection was accepted: let it in, or say why not."""
        limits, descriptors = self.limits, self._descriptors
        if descriptors.used >= descriptors.for_clients:
            return "no_descriptor_left"
        if self.connections >= limits.connections:
            return "too_many_connections"
        name = network_of(host)
        address = self._addresses.get(name)
        if address is None:
            if len(self._addresses) >= self._swept_beyond:
                self._forget_rested(now)
            address = self._addresses[name] = ClientAddress(RequestQuota(limits.request_rate_per_address, now))
        if address.connections >= limits.connections_per_address:
            return "too_many_connections_of_address"
        address.connections += 1
        self.connections += 1
        descriptors.used += 1
        return Admitted(name, address, RequestQuota(limits.request_rate, now))

    def leave(self, admitted: Admitted) -> None:
        admitted.address.connections -= 1
        self.connections -= 1
        self._descriptors.used -= 1
        self.hold(admitted, 0)

    def reach_out(self, count: int) -> None:
        """So many more connections are there for clients that were let in; less than 0 when they end. They are never
        refused: whoever comes next is."""
        self._descriptors.used += count

    def take(self, admitted: Admitted, now: float) -> float:
        """A request of a connection was answered. Returns for how long nothing more is taken up from it."""
        return min(max(admitted.quota.take(now), admitted.address.quota.take(now)), LONGEST_THROTTLE)

    def hold(self, admitted: Admitted, unread: int) -> None:
        """So many bytes wait for the client of a connection to read them."""
        self.unread += unread - admitted.unread
        self._memory.used += unread - admitted.unread
        admitted.unread = unread

    def _forget_rested(self, now: float) -> None:
        # Not when the last connection of an address ends: whoever comes back at once has still used up its quota.
        self._addresses = {
            name: address
            for name, address in self._addresses.items()
            if address.connections or not address.quota.is_rested(now)
        }
        self._swept_beyond = 2 * len(self._addresses) + FEW_ADDRESSES


def network_of(host: str) -> str:
    """The address for which a client is counted."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or IPv6Network((address, 64), strict=False))
    return str(address)

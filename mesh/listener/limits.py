"""Admission of clients, and limits for one client: decisions only, no IO. Times are in seconds.

A client is an address here: an IPv4 address, or a /64 network of IPv6, which usually belongs to one host. Three things
are bounded: connections (of the process by its open files, of a virtual cluster, of an address), requests per second
(of a connection, of an address), and bytes that clients do not read.

The rate of requests is limited as in Kafka (KIP-124, KIP-219). A request above the quota is carried out and answered at
once. For the time in `throttle_time_ms`, no further request of its connection is handled. A Fetch that brings new
records is no load but the work itself, and does not count. A Fetch whose records were all sent before counts
like any other request.
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
"""Reasons why a connection is refused or closed, other than a protocol error."""

LONGEST_THROTTLE: Final = 1.0
"""The longest throttle in seconds. It is short, since clients count it against the timeout of their next request; Kafka
has the same default."""
KEPT_FOR_OTHERS: Final = 200
"""Descriptors that are not for clients: upstream connections, files, the admin address. An eighth of all descriptors,
if that is more."""

FEW_ADDRESSES: Final = 1_000
"""The number of addresses that are remembered without a check whether they still matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one virtual cluster: docs/configuration.md, `limits`. Times in seconds, sizes in bytes, rates per
    second."""

    connections: int = 10_000
    connections_per_address: int = 5_000
    request: int | None = None
    """The largest request in bytes; None for the target's default."""
    idle_timeout: float = 600.0
    frame_timeout: float = 30.0
    write_timeout: float = 60.0
    unread: int = 64 << 20
    send_buffer: int | None = 256 << 10
    """The kernel's send buffer of each connection (SO_SNDBUF) in bytes; None leaves it to the system."""
    request_rate: int = 1_000
    request_rate_per_address: int = 2_000


class RequestQuota:
    """A token bucket: `rate` requests a second, and as many at once after a second of rest."""

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: int, now: float) -> None:
        self.rate = rate
        self._left = float(rate)
        self._at = now

    def charge_request(self, now: float) -> float:
        """Counts an answered request. Returns the seconds for which the client is throttled; 0 if it is not."""
        self._refill(now)
        self._left = max(self._left - 1.0, -self.rate * LONGEST_THROTTLE)
        return 0.0 if self._left >= 0 else -self._left / self.rate

    def is_full(self, now: float) -> bool:
        """True if a new bucket would decide the same from now on."""
        self._refill(now)
        return self._left >= self.rate

    def _refill(self, now: float) -> None:
        self._left = min(self._left + (now - self._at) * self.rate, float(self.rate))
        self._at = now


class Descriptors:
    """The open files of this process. for_clients: the number of connections for which they suffice. used: connections
    of clients, TLS handshakes, and connections to brokers for a single client."""

    def __init__(self, available: int) -> None:
        self.available = available
        self.for_clients = max(available - max(KEPT_FOR_OTHERS, available // 8), 1)
        self.used = 0


def raise_descriptor_limit() -> int:
    """Raises the limit of open files of this process as far as allowed (RLIMIT_NOFILE). Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # some systems report a hard limit that they do not allow
        return _number(soft)
    return _number(hard)


def _number(limit: int) -> int:
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit


@dataclass(slots=True, eq=False)
class ClientAddress:
    """The address of a client, from which several connections may come."""

    quota: RequestQuota
    connections: int = 0


@dataclass(slots=True, eq=False)
class Admitted:
    """A connection that was admitted. unread: bytes that wait for its client."""

    host: str
    address: ClientAddress
    quota: RequestQuota
    unread: int = field(default=0)


class ConnectionLimiter:
    """Admits the connections of one virtual cluster within its limits. descriptors, memory: shared by the
    whole process.

    most_unread: the most bytes that may wait for clients. They count as records do, and are a quarter of the budget at
    most. Otherwise clients that do not read could keep all others from getting records.
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
        """Applies other limits from now on. admitted: all open connections."""
        self.limits = limits
        for address in self._addresses.values():
            address.quota.rate = limits.request_rate_per_address
        for each in admitted:
            each.quota.rate = limits.request_rate

    def enter(self, host: str, now: float) -> Admitted | Closed:
        """Admits an accepted connection. Returns the reason if it is refused."""
        limits, descriptors = self.limits, self._descriptors
        if descriptors.used >= descriptors.for_clients:
            return "no_descriptor_left"
        if self.connections >= limits.connections:
            return "too_many_connections"
        name = network_of(host)
        address = self._addresses.get(name)
        if address is None:
            if len(self._addresses) >= self._swept_beyond:
                self._forget_idle(now)
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
        self.count_unread(admitted, 0)

    def count_broker_connections(self, count: int) -> None:
        """Counts further connections to brokers for admitted clients; a negative count when they end. They are never
        refused; new clients are."""
        self._descriptors.used += count

    def begin_handshake(self) -> bool:
        """Counts a connection whose TLS handshake begins. Returns False if no descriptor is left for it."""
        if self._descriptors.used >= self._descriptors.for_clients:
            return False
        self._descriptors.used += 1
        return True

    def end_handshake(self) -> None:
        """Counts a handshake that has ended. Its connection enters before, if it succeeded."""
        self._descriptors.used -= 1

    def charge_request(self, admitted: Admitted, now: float) -> float:
        """Counts an answered request of a connection. Returns the seconds for which no further request of it is
        handled."""
        return min(
            max(admitted.quota.charge_request(now), admitted.address.quota.charge_request(now)), LONGEST_THROTTLE
        )

    def count_unread(self, admitted: Admitted, unread: int) -> None:
        """Counts bytes that wait for the client of a connection."""
        self.unread += unread - admitted.unread
        self._memory.used += unread - admitted.unread
        admitted.unread = unread

    def _forget_idle(self, now: float) -> None:
        # Quotas outlive the last connection of an address: a client that reconnects at once has still used its quota.
        self._addresses = {
            name: address
            for name, address in self._addresses.items()
            if address.connections or not address.quota.is_full(now)
        }
        self._swept_beyond = 2 * len(self._addresses) + FEW_ADDRESSES


def network_of(host: str) -> str:
    """Returns the address or network under which a client is counted."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or IPv6Network((address, 64), strict=False))
    return str(address)

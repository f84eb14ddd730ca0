"""Replaces the addresses of brokers in their answers by those for clients.

Metadata, FindCoordinator and DescribeCluster answer with addresses. Produce, Fetch, ShareFetch and ShareAcknowledge
contain the address of a partition's new leader if the client asked the wrong broker (KIP-951).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, Protocol

from mesh.wire.apis import ApiKey, has_tagged_response_header
from mesh.wire.entities import Program, Unchanged, program_of_addresses
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT32
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.spans import Spans

_FIRST_WITH_ADDRESSES: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {
        ApiKey.PRODUCE: 10,
        ApiKey.FETCH: 16,
        ApiKey.METADATA: 0,
        ApiKey.FIND_COORDINATOR: 0,
        ApiKey.DESCRIBE_CLUSTER: 0,
        ApiKey.SHARE_FETCH: 1,
        ApiKey.SHARE_ACKNOWLEDGE: 1,
    }
)


class NodeAddresses(Protocol):
    """The addresses at which clients reach the brokers of a cluster."""

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        """Returns the address of a broker for clients; None if clients cannot reach it here."""


class _Told(Unchanged):
    """A translation that changes only addresses."""

    __slots__ = ("_addresses",)

    def __init__(self, addresses: NodeAddresses) -> None:
        self._addresses: Final = addresses

    def address(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        return self._addresses.address_of(node, host, port)


def carries_addresses(api_key: ApiKey, version: int) -> bool:
    """Returns True if the answer of this version has fields for addresses of brokers."""
    first = _FIRST_WITH_ADDRESSES.get(api_key)
    return first is not None and first <= version <= RELAYED_APIS[api_key].highest


def with_addresses(api_key: ApiKey, version: int, answer: memoryview, addresses: NodeAddresses) -> list[Buffer]:
    """Returns the answer for clients with its length in front, in slices of the original where nothing has changed.

    answer: a whole response frame without its length, of a version with addresses.

    A broker that clients cannot reach is left out. FindCoordinator reports such a coordinator as
    COORDINATOR_NOT_AVAILABLE. Controllers, for which DescribeCluster may ask, stay as they are. Raises ProtocolError;
    bytes after the addresses are not checked.
    """
    program, has_tags = _prepared(api_key, version)
    header = Spans(answer, INT32.size)
    if has_tags:
        header.skip_tagged_fields()
    told = program.translate(answer, header.position, _Told(addresses))
    return [INT32.pack(sum(map(len, told))), *told]


@cache
def _prepared(api_key: ApiKey, version: int) -> tuple[Program, bool]:
    """Returns the program for the body, and whether the response header has tagged fields."""
    return program_of_addresses(api_key, version), has_tagged_response_header(api_key, version)

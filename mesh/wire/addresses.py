"""Answers of a broker with the addresses in them that clients are to be told.

Metadata, FindCoordinator and DescribeCluster exist to say them. Produce and Fetch, ShareFetch and ShareAcknowledge name
the new leader of a partition with its address where the client asked the wrong broker (KIP-951).
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
    """Where clients find the brokers of a cluster."""

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        """What clients are told instead; None: clients cannot reach this node here."""


class _Told(Unchanged):
    """Entities of which only the addresses change."""

    __slots__ = ("_addresses",)

    def __init__(self, addresses: NodeAddresses) -> None:
        self._addresses: Final = addresses

    def address(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        return self._addresses.address_of(node, host, port)


def carries_addresses(api_key: ApiKey, version: int) -> bool:
    """Whether the answer of this version has a place for addresses of brokers."""
    first = _FIRST_WITH_ADDRESSES.get(api_key)
    return first is not None and first <= version <= RELAYED_APIS[api_key].highest


def with_addresses(api_key: ApiKey, version: int, answer: memoryview, addresses: NodeAddresses) -> list[Buffer]:
    """The answer as clients are to have it, its length in front, in slices of what came where nothing has changed.

    answer: a whole response frame without its length, of a version that carries addresses.

    A broker that clients cannot reach is left out; for such a coordinator FindCoordinator says
    COORDINATOR_NOT_AVAILABLE. Controllers, which DescribeCluster may be asked for, are left as they are. Raises
    ProtocolError; what is behind the addresses is not looked at.
    """
    program, has_tags = _prepared(api_key, version)
    header = Spans(answer, INT32.size)
    if has_tags:
        header.skip_tagged_fields()
    told = program.translate(answer, header.position, _Told(addresses))
    return [INT32.pack(sum(map(len, told))), *told]


@cache
def _prepared(api_key: ApiKey, version: int) -> tuple[Program, bool]:
    """What there is to do with the body, and whether there are tagged fields in front of it."""
    return program_of_addresses(api_key, version), has_tagged_response_header(api_key, version)

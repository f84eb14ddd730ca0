"""The leaves of a router: its routes to clusters, with the nodes of each."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mesh.routing.concatenated import PartIds, PartsAtLeaf
from mesh.routing.entities import UnionNames
from mesh.routing.features import common_features
from mesh.routing.kit.union_apis import SERVED_BY_UNIONS, UNION_APIS, LeafDestination
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NodeIds
from mesh.routing.one_cluster import OneCluster
from mesh.routing.producer_ids import ProducerIdTooLarge, tag_of, tagged, untagged
from mesh.routing.translation import HomeUnknown, LeafTranslation
from mesh.runtime.entity_router.leaf_nodes import LeafNodes
from mesh.runtime.relay.services import RelayServices
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey, Versions
from mesh.wire.features import Features
from mesh.wire.relayed_apis import ADVERTISED_APIS

SERVED: Final[Mapping[ApiKey, tuple[int, int]]] = {
    key: (each.lowest, each.highest) for key, each in SERVED_BY_UNIONS.items()
}
ADVERTISED: Final[Mapping[ApiKey, tuple[int, int]]] = {
    key: (min(lowest, ADVERTISED_APIS[key][0]), highest) for key, (lowest, highest) in SERVED.items()
}
"""The versions of these APIs in ApiVersions. Produce is listed from v0 on, as in a relay."""
_OF_SEVERAL: Final = frozenset(
    key for key, row in UNION_APIS.items() if row.destination in (LeafDestination.ALL, LeafDestination.OWNER)
)
"""Requests that may concern several leaves, also if they name none."""
_OF_GROUPS: Final = frozenset(
    {
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    }
)
"""Requests about groups that may concern several leaves. With one cluster in place of a union, they pass to it."""
_OF_DEFAULT: Final = {key for key, row in UNION_APIS.items() if row.destination is LeafDestination.DEFAULT} | {
    ApiKey.INIT_PRODUCER_ID
}
"""Requests that may concern the default leaf, although they do not name it."""


@dataclass(slots=True, eq=False)
class RouterLeaf:
    """One leaf. path: the names of the routes that lead to it. services: shared by the connections that lead to it.
    given_tag: the configured tag of its producer ids; None if none is configured."""

    number: LeafNumber
    path: str
    services: RelayServices
    nodes: LeafNodes
    watching: asyncio.Task[None]
    given_tag: int | None = None

    @property
    def tag(self) -> int | None:
        """The tag of this leaf's producer ids in other clusters; None if it is not known yet."""
        if self.given_tag is not None:
            return self.given_tag
        return None if self.nodes.cluster_id is None else tag_of(self.nodes.cluster_id)


class TaggedProducers:
    """The producer ids that one leaf hands out, as all other leaves know them. Implements
    `mesh.routing.translation.ProducerIds`."""

    def __init__(self, home: RouterLeaf) -> None:
        self._home: Final = home

    def tagged(self, producer_id: int) -> int:
        try:
            return tagged(self._tag(), producer_id)
        except ProducerIdTooLarge:
            return producer_id  # another mesh has tagged it, so it is unique already

    def untagged(self, producer_id: int) -> int:
        try:
            known = untagged(self._tag(), producer_id)
        except HomeUnknown:
            return producer_id
        return producer_id if known is None else known

    def _tag(self) -> int:
        if (tag := self._home.tag) is None:
            raise HomeUnknown
        return tag


class Leaves:
    """The leaves of a router.

    names: the places of topics, groups and transactions. ids: the ids that clients see for the nodes of all leaves;
    None for the usual ones. by_number: all leaves, with removed ones, for work in progress. part_ids: the reported ids
    of parts of concatenated topics.
    """

    def __init__(
        self, leaves: Collection[RouterLeaf], default: LeafNumber, names: UnionNames, ids: NodeIds | None = None
    ) -> None:
        self.by_number: Final = {leaf.number: leaf for leaf in leaves}
        self.ids = ids or NodeIds(self.by_number)
        self.default: Final = self.by_number[default]
        self.names = names
        self.part_ids: Final = PartIds()
        self._parts: Final[dict[LeafNumber, PartsAtLeaf]] = {}
        self._producer_ids: Final = TaggedProducers(self.default)
        self._numbers = frozenset(self.by_number)

    def __iter__(self) -> Iterator[RouterLeaf]:
        return (self.by_number[number] for number in sorted(self._numbers))

    @property
    def numbers(self) -> frozenset[LeafNumber]:
        """The numbers of the existing leaves."""
        return self._numbers

    def change(
        self, added: Collection[RouterLeaf], removed: Collection[LeafNumber], names: UnionNames, ids: NodeIds
    ) -> None:
        """Adds and removes leaves, and replaces names and node ids. The default leaf does not change."""
        self.by_number.update((leaf.number, leaf) for leaf in added)
        self._numbers = (self._numbers - frozenset(removed)) | {leaf.number for leaf in added}
        self.names, self.ids = names, ids
        self._parts.clear()

    def translation(self, leaf: RouterLeaf) -> LeafTranslation:
        """The translation of requests and responses for this leaf, with the present names."""
        if leaf is self.default:
            answered_here, producer_ids = _OF_SEVERAL, None
        else:
            answered_here, producer_ids = _OF_SEVERAL | _OF_DEFAULT, self._producer_ids
        if not self.are_one_cluster:
            answered_here |= _OF_GROUPS
        parts = self.parts_at(leaf.number)
        return LeafTranslation(leaf.number, self.ids, self.names, leaf.nodes, answered_here, producer_ids, parts)

    def parts_at(self, leaf: LeafNumber) -> PartsAtLeaf:
        """The parts of concatenated topics that a leaf has. The result is false if there are none."""
        if (known := self._parts.get(leaf)) is None:
            known = self._parts[leaf] = PartsAtLeaf(leaf, self.names.concatenated, self.part_ids)
        return known

    @property
    def are_one_cluster(self) -> bool:
        """True if there is one cluster in place of a union, with its own names."""
        return isinstance(self.names, OneCluster)

    def served(self, limits: Mapping[ApiKey, tuple[int, int]]) -> Mapping[ApiKey, Versions]:
        """The part of these APIs that every leaf serves, as far as reported."""
        for leaf in self:
            served = leaf.services.served_at(None, limits)
            limits = {key: (each.lowest, each.highest) for key, each in served.items()}
        return served

    def features(self) -> Features:
        """The features that all clusters have."""
        return common_features([leaf.nodes.features for leaf in self])

    @property
    def are_known(self) -> bool:
        """True if any leaf has ever reported its nodes."""
        return any(leaf.nodes.are_known for leaf in self)

    async def wait_until_known(self) -> None:
        """Returns when any leaf has reported its nodes. Raises Unreachable."""
        await any_of(leaf.nodes.wait_until_known() for leaf in self)


async def any_of(looks: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Returns when one of the coroutines does. Raises Unreachable if none does."""
    tasks = [asyncio.get_running_loop().create_task(look) for look in looks]
    try:
        reason = Unreachable("there are no leaves")
        for look in asyncio.as_completed(tasks):
            try:
                await look
            except Unreachable as problem:
                reason = problem
            else:
                return
        raise reason
    finally:
        for task in tasks:
            task.cancel()

"""The leaves of a router: its routes to clusters, with the nodes of each."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mesh.routing.entities import Names
from mesh.routing.features import common_features
from mesh.routing.kit.union_apis import SERVED_BY_UNIONS, UNION_APIS, Way
from mesh.routing.names import LeafNumber
from mesh.routing.node_ids import NodeIds
from mesh.routing.one_cluster import OneCluster
from mesh.routing.producer_ids import ProducerIdTooLarge, tag_of, tagged, untagged
from mesh.routing.translation import HomeUnknown, LeafTranslation
from mesh.runtime.relay.services import RelayServices
from mesh.runtime.router.leaf_nodes import LeafNodes
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
"""What ApiVersions says of these: Produce from v0 on, as a relay does."""
_OF_SEVERAL: Final = frozenset(key for key, row in UNION_APIS.items() if row.way in (Way.ALL, Way.OWNER))
"""Requests that may be for several leaves, also by naming nothing."""
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
"""The same of groups; where there is one cluster in place of a union, they pass."""
_OF_DEFAULT: Final = {key for key, row in UNION_APIS.items() if row.way is Way.DEFAULT} | {ApiKey.INIT_PRODUCER_ID}
"""Requests of these may be for the default leaf, although nothing in them says so."""


@dataclass(slots=True, eq=False)
class RouterLeaf:
    """One leaf. path: the names of the routes that lead to it. services: of the connections that lead to it.
    given_tag: that of its producer ids, if a configuration says it."""

    number: LeafNumber
    path: str
    services: RelayServices
    nodes: LeafNodes
    watching: asyncio.Task[None]
    given_tag: int | None = None

    @property
    def tag(self) -> int | None:
        """Of its producer ids in other clusters. None: it is not known yet."""
        if self.given_tag is not None:
            return self.given_tag
        return None if self.nodes.cluster_id is None else tag_of(self.nodes.cluster_id)


class TaggedProducers:
    """The producer ids that one leaf hands out, as all others know them. Implements
    `mesh.routing.translation.ProducerIds`."""

    def __init__(self, home: RouterLeaf) -> None:
        self._home: Final = home

    def tagged(self, producer_id: int) -> int:
        try:
            return tagged(self._tag(), producer_id)
        except ProducerIdTooLarge:
            return producer_id  # tagged by another mesh, and so like no other

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
    """All leaves of a router. names: of their topics, groups and transactions. ids: of the nodes of all leaves at the
    addresses that clients come to, if there are others. by_number: with leaves that were removed, for what had begun.
    """

    def __init__(
        self, leaves: Collection[RouterLeaf], default: LeafNumber, names: Names, ids: NodeIds | None = None
    ) -> None:
        self.by_number: Final = {leaf.number: leaf for leaf in leaves}
        self.ids = ids or NodeIds(self.by_number)
        self.default: Final = self.by_number[default]
        self.names = names
        self._producer_ids: Final = TaggedProducers(self.default)
        self._numbers = frozenset(self.by_number)

    def __iter__(self) -> Iterator[RouterLeaf]:
        return (self.by_number[number] for number in sorted(self._numbers))

    @property
    def numbers(self) -> frozenset[LeafNumber]:
        """Of those that are there."""
        return self._numbers

    def change(
        self, added: Collection[RouterLeaf], removed: Collection[LeafNumber], names: Names, ids: NodeIds
    ) -> None:
        """The default leaf stays the one that it is."""
        self.by_number.update((leaf.number, leaf) for leaf in added)
        self._numbers = (self._numbers - frozenset(removed)) | {leaf.number for leaf in added}
        self.names, self.ids = names, ids

    def translation(self, leaf: RouterLeaf) -> LeafTranslation:
        """Of what passes to this leaf, with the names of now."""
        if leaf is self.default:
            answered_here, producer_ids = _OF_SEVERAL, None
        else:
            answered_here, producer_ids = _OF_SEVERAL | _OF_DEFAULT, self._producer_ids
        if not self.are_one_cluster:
            answered_here |= _OF_GROUPS
        return LeafTranslation(leaf.number, self.ids, self.names, leaf.nodes, answered_here, producer_ids)

    @property
    def are_one_cluster(self) -> bool:
        """In place of a union, with its own names."""
        return isinstance(self.names, OneCluster)

    def served(self, limits: Mapping[ApiKey, tuple[int, int]]) -> Mapping[ApiKey, Versions]:
        """What every leaf serves of these, as far as that is known."""
        for leaf in self:
            served = leaf.nodes.served_at(None, limits)
            limits = {key: (each.lowest, each.highest) for key, each in served.items()}
        return served

    def features(self) -> Features:
        """What holds in all clusters."""
        return common_features([leaf.nodes.features for leaf in self])

    @property
    def are_known(self) -> bool:
        """Whether any leaf has ever said which nodes it has."""
        return any(leaf.nodes.are_known for leaf in self)

    async def first_look(self) -> None:
        """Returns when any leaf has said which nodes it has. Raises Unreachable."""
        await any_of(leaf.nodes.first_look() for leaf in self)


async def any_of(looks: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Returns when one of them does. Raises Unreachable if none does."""
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

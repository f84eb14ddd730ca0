"""The requests about groups that concern several clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from mesh.routing.groups.multiplexed import MultiplexedMembers
from mesh.routing.groups.places import Places
from mesh.runtime.entity_router.asking import Asker
from mesh.runtime.entity_router.entities import RouterEntities
from mesh.runtime.entity_router.groups.configs import GroupConfigs
from mesh.runtime.entity_router.groups.deletion import GroupDeletion
from mesh.runtime.entity_router.groups.descriptions import GroupDescriptions
from mesh.runtime.entity_router.groups.elsewhere import MembersElsewhere
from mesh.runtime.entity_router.groups.heartbeats import GroupHeartbeats
from mesh.runtime.entity_router.groups.homes import GroupHomes
from mesh.runtime.entity_router.groups.listing import GroupListing
from mesh.runtime.entity_router.groups.offset_keeper import OffsetKeeper
from mesh.runtime.entity_router.groups.offsets import GroupOffsets, OffsetOf
from mesh.runtime.entity_router.groups.services import GroupProblems, GroupServices
from mesh.runtime.entity_router.groups.share_offsets import ShareOffsets
from mesh.runtime.entity_router.leaves import Leaves
from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree


class RouterGroupRequests:
    """Answers requests about groups. timeout: returns the seconds that a cluster has for each request."""

    def __init__(
        self, leaves: Leaves, entities: RouterEntities, timeout: Callable[[], float], problems: GroupProblems
    ) -> None:
        self._services: Final = GroupServices(leaves, entities, timeout, problems)
        services = self._services
        homes = GroupHomes(services)
        self._keeper: Final = OffsetKeeper(services, homes)
        self._elsewhere: Final = MembersElsewhere(services)
        members = MultiplexedMembers(Places(entities))
        self._offsets: Final = GroupOffsets(services, homes, self._keeper, self._elsewhere, members)
        self._heartbeats: Final = GroupHeartbeats(services, homes, members)
        self._descriptions: Final = GroupDescriptions(services, homes)
        self._listing: Final = GroupListing(services, members)
        self._configs: Final = GroupConfigs(services)
        self._share_offsets: Final = ShareOffsets(services, homes)
        self._deletion: Final = GroupDeletion(services, homes, self._keeper)

    def follow(self, offset_of: OffsetOf) -> None:
        """Makes fetched offsets follow topics that move. offset_of: as in `GroupOffsets`."""
        self._offsets.offset_of = offset_of

    def close(self) -> None:
        self._keeper.close()
        self._elsewhere.close()

    async def learn(self, topic_ids: Iterable[UUID]) -> None:
        """Looks up topics that no client has asked about since the mesh started."""
        await self._services.learn(topic_ids)

    async def answer(self, asker: Asker, api_key: ApiKey, version: int, request: Tree) -> Tree | None:
        """Answers a request about groups; None for a request that is not answered here."""
        match api_key:
            case ApiKey.OFFSET_COMMIT:
                return await self._offsets.commit(asker, version, request)
            case ApiKey.OFFSET_FETCH:
                return await self._offsets.fetch(asker, version, request)
            case ApiKey.DELETE_GROUPS:
                return await self._deletion.groups(asker, version, request)
            case ApiKey.OFFSET_DELETE:
                return await self._deletion.offsets(asker, version, request)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT | ApiKey.SHARE_GROUP_HEARTBEAT:
                return await self._heartbeats.answer(asker, api_key, version, request)
            case ApiKey.LIST_GROUPS:
                return await self._listing.answer(asker, version, request)
            case ApiKey.CONSUMER_GROUP_DESCRIBE | ApiKey.SHARE_GROUP_DESCRIBE:
                return await self._descriptions.answer(asker, api_key, version, request)
            case ApiKey.ALTER_CONFIGS | ApiKey.INCREMENTAL_ALTER_CONFIGS:
                return await self._configs.refusal(asker, api_key, version, request)
            case (
                ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
                | ApiKey.ALTER_SHARE_GROUP_OFFSETS
                | ApiKey.DELETE_SHARE_GROUP_OFFSETS
            ):
                return await self._share_offsets.answer(asker, api_key, version, request)
            case _:
                return None

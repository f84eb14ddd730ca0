"""ListGroups: v0-v5

Behaviour:
* The groups that have a pool here. Groups that exist upstream only are not listed: many of them may be none of this
  address's, and each can be described by its name.

Version notes:
* v3: flexible (KIP-482). v4: states (KIP-518). v5: types (KIP-848); a pool with a member of the consumer protocol is of
  type consumer, as it would be on a broker; one that has, or had, share members is listed as of type share, and once
  more if it has others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mesh.apis.api import Api, as_it_is
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import notice
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.groups.membership import CONSUMER_PROTOCOL, SHARE_PROTOCOL
from mesh.pool.inspection import is_consumer_group, is_share_group_only, state_of, state_of_share_group
from mesh.pool.pool import Pool
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.messages import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(context: PoolContext, request: ListGroupsRequest) -> Sequence[Effect]:
    notice(context)
    listed = [each for group, pool in sorted(context.core.pools.items()) for each in _listed(group, pool)]
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    groups = tuple(
        group
        for group in listed
        if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)
    )
    return context.answer(ListGroupsResponse(groups=groups))


def _listed(group: GroupId, pool: Pool) -> Iterator[ListedGroup]:
    """Under each type that its members have."""
    if not is_share_group_only(pool):
        yield ListedGroup(
            group_id=group,
            protocol_type=CONSUMER_PROTOCOL,
            group_state=state_of(pool),
            group_type="consumer" if is_consumer_group(pool) else "classic",
        )
    if pool.serving.has_share_members:
        yield ListedGroup(
            group_id=group,
            protocol_type=SHARE_PROTOCOL,
            group_state=state_of_share_group(pool),
            group_type=SHARE_PROTOCOL,
        )


API = Api(ApiKey.LIST_GROUPS, APIS[ApiKey.LIST_GROUPS], handle, as_it_is)

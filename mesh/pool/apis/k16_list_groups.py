"""ListGroups: v0-v5

Behaviour:
* Only the coordinator's node lists groups, as only a group's coordinator does among brokers. Other nodes list none.
* Lists groups that have a pool here, and share groups that had one, as far as this process or the store remembers.
  Groups that exist only upstream are not listed, as many of them may have nothing to do with this address. Each can be
  described by its name.
* While the store is being read the answer is COORDINATOR_LOAD_IN_PROGRESS, as a broker's is while it reads its groups.

Version notes:
* v3: flexible (KIP-482). v4: states (KIP-518). v5: types (KIP-848); a pool with a member of the consumer protocol has
  the type consumer, as on a broker. A pool that has, or had, share members is listed with the type share, and a second
  time if it has other members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mesh.apis.api import Api, as_it_is
from mesh.pool.apis.context import PoolContext
from mesh.pool.apis.tools import notice, refusal
from mesh.pool.common.effects import Effect
from mesh.pool.common.ids import GroupId
from mesh.pool.groups.membership import CONSUMER_PROTOCOL, SHARE_PROTOCOL
from mesh.pool.inspection import is_consumer_group, is_share_group_only, state_of, state_of_share_group
from mesh.pool.pool import Pool
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(context: PoolContext, request: ListGroupsRequest) -> Sequence[Effect]:
    notice(context)
    if not context.is_at_coordinator:
        return context.answer(ListGroupsResponse(groups=()))
    if context.core.kept_share_groups.is_loading:
        return context.answer(ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=()))
    pools = context.core.pools
    remembered = [each for each in context.core.kept_share_groups.groups() if refusal(context, each) is ErrorCode.NONE]
    listed = [each for group in sorted({*pools, *remembered}) for each in _listed(group, pools.get(group))]
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    groups = tuple(
        group
        for group in listed
        if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)
    )
    return context.answer(ListGroupsResponse(groups=groups))


def _listed(group: GroupId, pool: Pool | None) -> Iterator[ListedGroup]:
    """Yields a group under each type that its members have."""
    if pool is not None and not is_share_group_only(pool):
        yield ListedGroup(
            group_id=group,
            protocol_type=CONSUMER_PROTOCOL,
            group_state=state_of(pool),
            group_type="consumer" if is_consumer_group(pool) else "classic",
        )
    if pool is None or pool.serving.has_share_members:
        yield ListedGroup(
            group_id=group,
            protocol_type=SHARE_PROTOCOL,
            group_state=state_of_share_group(pool),
            group_type=SHARE_PROTOCOL,
        )


API = Api(ApiKey.LIST_GROUPS, APIS[ApiKey.LIST_GROUPS], handle, as_it_is)

"""The APIs that a virtual cluster with target `pool` serves, in addition to those of its listener. ApiVersions and all
version checks derive from this table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mesh.apis.api import AnyApi
from mesh.pool.apis import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k32_describe_configs,
    k42_delete_groups,
    k44_incremental_alter_configs,
    k47_offset_delete,
    k60_describe_cluster,
    k68_consumer_group_heartbeat,
    k69_consumer_group_describe,
    k74_list_config_resources,
    k76_share_group_heartbeat,
    k77_share_group_describe,
    k78_share_fetch,
    k79_share_acknowledge,
    k90_describe_share_group_offsets,
    k91_alter_share_group_offsets,
    k92_delete_share_group_offsets,
)
from mesh.wire.apis import ApiKey

TABLE: Final[Mapping[ApiKey, AnyApi]] = MappingProxyType(
    {
        module.API.key: module.API
        for module in (
            k00_produce,
            k01_fetch,
            k02_list_offsets,
            k03_metadata,
            k08_offset_commit,
            k09_offset_fetch,
            k10_find_coordinator,
            k11_join_group,
            k12_heartbeat,
            k13_leave_group,
            k14_sync_group,
            k15_describe_groups,
            k16_list_groups,
            k32_describe_configs,
            k42_delete_groups,
            k44_incremental_alter_configs,
            k47_offset_delete,
            k60_describe_cluster,
            k68_consumer_group_heartbeat,
            k69_consumer_group_describe,
            k74_list_config_resources,
            k76_share_group_heartbeat,
            k77_share_group_describe,
            k78_share_fetch,
            k79_share_acknowledge,
            k90_describe_share_group_offsets,
            k91_alter_share_group_offsets,
            k92_delete_share_group_offsets,
        )
    }
)

"""From the configuration to what the parts of the process are told: each in its own words, which know of no file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from mesh.config.model import ClientLimits, Cluster
from mesh.config.pool import NamedTopic, PrefixRuleConfig
from mesh.config.pool import PoolConfig as PoolConfig
from mesh.config.relay import RelayAuthentication, RelayConfig
from mesh.listener.limits import Limits
from mesh.pool.common import topics as pool_topics
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.history import Redelivery
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import PoolSettings, ShareSettings, ShareStart
from mesh.pool.common.topics import ExplicitTopic, Source, VirtualTopics
from mesh.records.spans import ClusterName, TopicName
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.wire.apis import ApiKey


def limits_of(limits: ClientLimits) -> Limits:
    """The values themselves: `model_dump` writes durations and sizes as text."""
    return Limits(**dict(limits))


def properties_of(cluster: Cluster) -> Mapping[str, str]:
    """librdkafka's, but for the addresses."""
    properties = cluster.client_properties()
    return {name: value for name, value in properties.items() if name != "bootstrap.servers"}


def clusters_of(pool: PoolConfig) -> set[ClusterName]:
    """Those whose topics it has."""
    names: set[ClusterName] = set()
    for rule in pool.topics:
        match rule:
            case NamedTopic():
                names |= {source.cluster for source in rule.sources}
            case PrefixRuleConfig():
                names.add(rule.cluster)
    return names


def topics_of(virtual_cluster: str, pool: PoolConfig) -> VirtualTopics:
    named: Iterable[NamedTopic] = (rule for rule in pool.topics if isinstance(rule, NamedTopic))
    rules: Iterable[PrefixRuleConfig] = (rule for rule in pool.topics if isinstance(rule, PrefixRuleConfig))
    return VirtualTopics(
        virtual_cluster,
        [
            ExplicitTopic(
                TopicName(topic.name), tuple(Source(source.cluster, source.topic) for source in topic.sources)
            )
            for topic in named
        ],
        [pool_topics.PrefixRule(rule.prefix, rule.cluster) for rule in rules],
    )


def rules_of(pool: PoolConfig) -> GroupRules:
    return GroupRules(
        admitted=pool.groups,
        maximum=pool.max_pools,
        group_less=GroupId(pool.group_less) if pool.group_less is not None else None,
        acknowledge=tuple((rule.group, rule.mode) for rule in pool.acknowledge),
    )


def _redelivery(pool: PoolConfig) -> Redelivery:
    limit = pool.dead_letters.limit if pool.dead_letters is not None else None
    backoff = pool.redelivery_backoff
    if backoff is None:
        return Redelivery(limit=limit)
    return Redelivery(limit=limit, initial=backoff.initial, multiplier=backoff.multiplier, maximum=backoff.maximum)


def settings_of(pool: PoolConfig, epoch: float, journal: bool = False) -> PoolSettings:
    """epoch, journal: see there."""
    return PoolSettings(
        policy=pool.fairness.policy,
        initial_window=pool.fairness.initial_window,
        maximum_window=pool.fairness.maximum_window,
        partition_budget=pool.budgets.partition,
        pool_budget=pool.budgets.pool,
        replay_budget=pool.budgets.replay,
        join_delay=pool.join_delay,
        fast_expiry=pool.fast_expiry,
        lock_timeout=pool.lock_timeout,
        hold_timeout=pool.hold_timeout,
        commit_timeout=pool.commit_timeout,
        redelivery=_redelivery(pool),
        metadata_limit=pool.metadata_limit,
        session_minimum=pool.session_timeout.minimum,
        session_maximum=pool.session_timeout.maximum,
        max_members=pool.max_members,
        epoch=epoch,
        journal=journal,
        share=ShareSettings(
            start=pool.share.auto_offset_reset,
            lock=pool.share.record_lock_duration,
            delivery_limit=pool.share.delivery_count_limit,
            most_locks=pool.share.partition_max_record_locks,
            may_renew=pool.share.renew_acknowledge,
            most_sessions=pool.share.max_share_sessions,
        ),
    )


def start_of(pool: PoolConfig, start: ShareStart) -> Literal["earliest", "latest"]:
    """Where a group begins that has committed nothing upstream."""
    match start:
        case ShareStart.EARLIEST:
            return "earliest"
        case ShareStart.LATEST:
            return "latest"
        case ShareStart.POOL:
            return pool.start.value


_TOKENS = (
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
)


def has_credentials(cluster: Cluster, access: ConnectionSettings) -> bool:
    """Whether the cluster knows the mesh by a principal of its own: SASL's, or that of a certificate."""
    return access.mechanism is not None or "ssl.certificate.location" in cluster.properties


def refused_apis(relay: RelayConfig, *, has_credentials: bool) -> dict[ApiKey, str]:
    """What a relay does not serve, and why. has_credentials: the mesh authenticates at the cluster, for its clients."""
    refused = {ApiKey[name]: "refuse" for name in relay.refuse}
    if has_credentials and relay.authentication is RelayAuthentication.MESH:
        refused |= dict.fromkeys(_TOKENS, "a token would be the mesh's own principal's")
    return refused

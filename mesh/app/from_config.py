"""Turns the configuration into settings for the parts of the process, in types of their own that know no file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mesh.app.logins import tokens_of
from mesh.config.model import ClientLimits, Cluster
from mesh.config.pool import LimitOf, NamedTopic, PoolConfig, PrefixRuleConfig
from mesh.config.relay import RelayAuthentication, RelayConfig
from mesh.listener.limits import Limits
from mesh.pool.common import topics as pool_topics
from mesh.pool.common.group_rules import GroupRules
from mesh.pool.common.history import Redelivery
from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import ByDuration, PoolSettings, ShareSettings, ShareStart
from mesh.pool.common.sharing import ClientPattern, LimitRule, Sharing, TopicPriority, WeightRule
from mesh.pool.common.topics import ExplicitTopic, Source, VirtualTopics
from mesh.records.spans import ClusterName, TopicName
from mesh.security.client_properties import TOKENS
from mesh.upstream.engine import Start
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.wire.apis import ApiKey


def limits_of(limits: ClientLimits) -> Limits:
    """Returns the limits with their values as numbers; `model_dump` would write durations and sizes as text."""
    return Limits(**dict(limits))


def properties_of(cluster: Cluster) -> Mapping[str, Any]:
    """Returns the librdkafka properties of a cluster without the bootstrap servers, and with the source of tokens if
    the login uses tokens."""
    properties = {name: each for name, each in cluster.client_properties().items() if name != "bootstrap.servers"}
    return properties if cluster.login is None else {**properties, TOKENS: tokens_of(cluster.name, cluster.login)}


def clusters_of(pool: PoolConfig) -> set[ClusterName]:
    """Returns the clusters that have topics of a pool."""
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


def sharing_of(pool: PoolConfig) -> Sharing:
    """Returns the rules by which a pool shares records out."""
    return Sharing(
        tuple(
            WeightRule(ClientPattern(each.client_id, each.principal), each.weight, each.priority)
            for each in pool.fairness.weights
        ),
        tuple(
            LimitRule(
                group=each.group,
                clients=ClientPattern(each.client_id, each.principal),
                is_of_each=each.of is LimitOf.MEMBER,
                records_per_second=each.records,
                bytes_per_second=each.bytes,
                in_flight=each.in_flight,
                share=each.share,
            )
            for each in pool.limits
        ),
        tuple(_topic_priorities(pool)) if any(rule.priority for rule in pool.topics) else (),
    )


def _topic_priorities(pool: PoolConfig) -> Iterator[TopicPriority]:
    for rule in pool.topics:
        match rule:
            case NamedTopic():
                for source in rule.sources:
                    yield TopicPriority(source.cluster, source.topic, False, rule.priority)
            case PrefixRuleConfig():
                yield TopicPriority(rule.cluster, rule.prefix, True, rule.priority)


def settings_of(pool: PoolConfig, epoch: float, journal: bool = False, batch_every: int = 0) -> PoolSettings:
    """Returns the settings of a pool. epoch, journal, batch_every: as in `PoolSettings`."""
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
        batch_every=batch_every,
        sharing=sharing_of(pool),
        share=ShareSettings(
            start=pool.share.auto_offset_reset,
            isolation=pool.isolation.value,
            lock=pool.share.record_lock_duration,
            shortest_lock=pool.share.min_record_lock_duration,
            longest_lock=pool.share.max_record_lock_duration,
            delivery_limit=pool.share.delivery_count_limit,
            most_locks=pool.share.partition_max_record_locks,
            may_renew=pool.share.renew_acknowledge,
            is_mixed=pool.share.mixed,
            most_sessions=pool.share.max_share_sessions,
        ),
    )


def start_of(pool: PoolConfig, share: ShareSettings | None) -> Start:
    """Returns the start of a group that has committed nothing upstream. share: the settings of a group with share
    members, else None."""
    match share.start if share is not None else ShareStart.POOL:
        case ShareStart.EARLIEST:
            return "earliest"
        case ShareStart.LATEST:
            return "latest"
        case ShareStart.POOL:
            return pool.start.value
        case ByDuration(seconds=seconds):
            return max(round((time.time() - seconds) * 1000), 0)


_TOKENS = (
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
)


def has_credentials(cluster: Cluster, settings: ConnectionSettings) -> bool:
    """Returns whether the mesh has its own principal at the cluster, by SASL or by a certificate."""
    return settings.mechanism is not None or "ssl.certificate.location" in cluster.properties


def refused_apis(relay: RelayConfig, *, has_credentials: bool) -> dict[ApiKey, str]:
    """Returns the APIs that a relay does not serve, with reasons. has_credentials: whether the mesh authenticates at
    the cluster with its own principal."""
    refused = {ApiKey[name]: "refuse" for name in relay.refuse}
    if has_credentials and relay.authentication is RelayAuthentication.MESH:
        refused |= dict.fromkeys(_TOKENS, "a token would be the mesh's own principal's")
    return refused

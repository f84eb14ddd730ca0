"""Checks of a configuration that concern several values together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from importlib.util import find_spec

from mesh.config.address_checks import check_addresses
from mesh.config.client_rule_checks import check_client_rules
from mesh.config.finding import Finding
from mesh.config.group_patterns import may_overlap
from mesh.config.interceptor_checks import check_interceptors
from mesh.config.login_checks import check_login
from mesh.config.mistakes import KeyPath, format_path
from mesh.config.model import Cluster, Config, EngineConfig, PoolTargetConfig, VirtualClusterConfig
from mesh.config.move_checks import check_moves
from mesh.config.pool import NamedTopic, PoolConfig, PrefixRuleConfig
from mesh.config.properties import refused_properties
from mesh.config.relay_checks import check_relays
from mesh.config.router_checks import check_routers
from mesh.config.routers import ToPoolConfig
from mesh.config.security.checks import check_authorization, check_sasl, check_tls
from mesh.config.topology_checks import check_topologies
from mesh.config.values import format_duration, format_share
from mesh.config.worker_checks import check_peers, check_workers
from mesh.pool.common.settings import Policy


def check(config: Config, cluster_names: frozenset[str] | None) -> Iterator[Finding]:
    """Finds the mistakes in a configuration. cluster_names: the names of all upstream clusters in the file, None if not
    all are known."""
    yield from _empty_lists(config)
    yield from _same_names(config.clusters, "clusters")
    yield from _same_names(config.virtual_clusters, "virtual_clusters")
    yield from check_addresses(config)
    yield from _shared_groups(config)
    for index, cluster in enumerate(config.clusters):
        path: KeyPath = ("clusters", index, "properties")
        for name, allowed in refused_properties(cluster.properties_with_mechanism()):
            yield Finding((*path, name) if name else path, cluster.properties.get(name or "", "(together)"), allowed)
        if cluster.engine is EngineConfig.RAW and (reason := cluster.reason_against_own_connections()) is not None:
            yield Finding(("clusters", index, "engine"), "raw", f"auto or librdkafka, since {reason}")
        yield from check_login(cluster, ("clusters", index))
    for index, virtual_cluster in enumerate(config.virtual_clusters):
        yield from _security(virtual_cluster, ("virtual_clusters", index))
    if config.journal is not None and cluster_names is not None and config.journal.cluster not in cluster_names:
        yield Finding(("journal", "cluster"), config.journal.cluster, _one_of(cluster_names))
    if config.store is not None and cluster_names is not None and config.store.cluster not in cluster_names:
        yield Finding(("store", "cluster"), config.store.cluster, _one_of(cluster_names))
    yield from _otlp(config)
    yield from check_relays(config, cluster_names)
    yield from check_routers(config, cluster_names)
    yield from check_client_rules(config)
    yield from check_interceptors(config)
    yield from check_topologies(config)
    yield from check_moves(config)
    yield from check_workers(config)
    yield from check_peers(config)
    for path, pool in _pools(config):
        if cluster_names is not None:
            yield from _references(pool, path, cluster_names)
        yield from _topics(pool, path)
        yield from _dead_letters(pool, path)
        yield from _limits(pool, path)
        yield from _locks(pool, path)
        yield from _sharing(pool, path)


def _locks(pool: PoolConfig, path: KeyPath) -> Iterator[Finding]:
    share = pool.share
    shortest, longest = share.min_record_lock_duration, share.max_record_lock_duration
    if not shortest <= share.record_lock_duration <= longest:
        allowed = (
            f"from min_record_lock_duration ({format_duration(shortest)}) "
            f"to max_record_lock_duration ({format_duration(longest)})"
        )
        yield Finding((*path, "share", "record_lock_duration"), format_duration(share.record_lock_duration), allowed)


def _otlp(config: Config) -> Iterator[Finding]:
    if config.otlp is None:
        return
    if config.otlp.spans is None and config.otlp.metrics is None:
        yield Finding(("otlp",), {}, "at least one of spans and metrics")
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        yield Finding(("otlp",), {}, "nothing unless its packages are installed: pip install 'kafka-mesh[otlp]'")


def _security(virtual_cluster: VirtualClusterConfig, path: KeyPath) -> Iterator[Finding]:
    for listener in virtual_cluster.all_listeners():
        if listener.tls is not None:
            yield from check_tls(listener.tls, (*path, *listener.path, "tls"))
    if virtual_cluster.sasl is not None:
        yield from check_sasl(virtual_cluster.sasl, (*path, "sasl"))
    if virtual_cluster.authorization is not None:
        yield from check_authorization(virtual_cluster.authorization, (*path, "authorization"))


def _pools(config: Config) -> Iterator[tuple[KeyPath, PoolConfig]]:
    for index, virtual_cluster in enumerate(config.virtual_clusters):
        if isinstance(virtual_cluster.target, PoolTargetConfig):
            yield ("virtual_clusters", index, "target", "pool"), virtual_cluster.target.pool
    for index, router in enumerate(config.routers):
        for number, route in enumerate(router.routes):
            if isinstance(route.target, ToPoolConfig):
                yield ("routers", index, "routes", number, "target", "pool"), route.target.pool


def _empty_lists(config: Config) -> Iterator[Finding]:
    lists: list[tuple[KeyPath, tuple[object, ...]]] = [
        (("clusters",), config.clusters),
        (("virtual_clusters",), config.virtual_clusters),
    ]
    for path, pool in _pools(config):
        lists += [((*path, "topics"), pool.topics), ((*path, "groups"), pool.groups)]
        for index, rule in enumerate(pool.topics):
            if isinstance(rule, NamedTopic):
                lists.append(((*path, "topics", index, "from"), rule.sources))
    for path, each in lists:
        if not each:
            yield Finding(path, (), "at least one")


def _same_names(named: Iterable[Cluster | VirtualClusterConfig], key: str) -> Iterator[Finding]:
    seen: dict[str, KeyPath] = {}
    for index, each in enumerate(named):
        path: KeyPath = (key, index, "name")
        if (first := seen.setdefault(each.name, path)) != path:
            yield Finding(path, each.name, f"a name of its own; {format_path(first)} is the same", (first,))


def _references(pool: PoolConfig, path: KeyPath, defined: frozenset[str]) -> Iterator[Finding]:
    for index, rule in enumerate(pool.topics):
        at = (*path, "topics", index)
        match rule:
            case NamedTopic():
                references = [
                    ((*at, "from", number, "cluster"), each.cluster) for number, each in enumerate(rule.sources)
                ]
            case PrefixRuleConfig():
                references = [((*at, "cluster"), rule.cluster)]
        for where, name in references:
            if name not in defined:
                yield Finding(where, name, _one_of(defined))


def _one_of(defined: frozenset[str]) -> str:
    return f"one of the clusters defined: {', '.join(sorted(defined))}"


def _topics(pool: PoolConfig, path: KeyPath) -> Iterator[Finding]:
    names: dict[str, KeyPath] = {}
    prefixes: dict[str, KeyPath] = {}
    for index, rule in enumerate(pool.topics):
        at: KeyPath = (*path, "topics", index)
        match rule:
            case NamedTopic():
                if (first := names.setdefault(rule.name, at)) != at:
                    yield Finding((*at, "name"), rule.name, f"named once; {format_path(first)} is the same", (first,))
                yield from _sources(rule, (*at, "from"))
            case PrefixRuleConfig():
                for prefix, earlier in prefixes.items():
                    if rule.prefix.startswith(prefix):
                        allowed = (
                            f"a prefix that can match; {format_path(earlier)} comes first and matches all of its topics"
                        )
                        yield Finding((*at, "prefix"), rule.prefix, allowed, (earlier,))
                        break
                prefixes.setdefault(rule.prefix, at)


def _sources(rule: NamedTopic, path: KeyPath) -> Iterator[Finding]:
    seen: dict[object, KeyPath] = {}
    for index, source in enumerate(rule.sources):
        at = (*path, index)
        if (first := seen.setdefault(source, at)) != at:
            yield Finding(
                at, f"{source.cluster}/{source.topic}", f"once in a topic; {format_path(first)} is the same", (first,)
            )


def _dead_letters(pool: PoolConfig, path: KeyPath) -> Iterator[Finding]:
    if pool.dead_letters is None:
        return
    topic = pool.dead_letters.topic
    for index, rule in enumerate(pool.topics):
        for source in rule.sources if isinstance(rule, NamedTopic) else ():
            if topic.format(topic=source.topic) == source.topic:
                at: KeyPath = (*path, "topics", index)
                yield Finding((*path, "dead_letters", "topic"), topic, "a topic that is no source itself", (at,))
                return


def _limits(pool: PoolConfig, path: KeyPath) -> Iterator[Finding]:
    pairs = [
        ("fairness", "initial_window", "maximum_window", pool.fairness),
        ("budgets", "partition", "pool", pool.budgets),
        ("session_timeout", "minimum", "maximum", pool.session_timeout),
    ]
    for section, lower, upper, model in pairs:
        if getattr(model, lower) > getattr(model, upper):
            value = model.model_dump(mode="json")[lower]
            allowed = f"at most {upper}, which is {model.model_dump(mode='json')[upper]}"
            yield Finding((*path, section, lower), value, allowed, ((*path, section, upper),))


def _sharing(pool: PoolConfig, path: KeyPath) -> Iterator[Finding]:
    policy = (*path, "fairness", "policy")
    for index, rule in enumerate(pool.fairness.weights):
        at: KeyPath = (*path, "fairness", "weights", index)
        if rule.client_id is None and rule.principal is None:
            yield Finding(at, {}, "client_id or principal, or both: a weight is relative to others")
        if rule.weight != 1 and pool.fairness.policy is not Policy.LEAST_LOADED:
            yield Finding((*at, "weight"), rule.weight, "1, unless policy is least_loaded", (policy,))
    for index, limit in enumerate(pool.limits):
        at = (*path, "limits", index)
        if all(each is None for each in (limit.records, limit.bytes, limit.in_flight, limit.share)):
            yield Finding(at, {}, "at least one of records, bytes, in_flight, share")
        if limit.share is not None and limit.client_id is None and limit.principal is None:
            yield Finding(
                (*at, "share"),
                format_share(limit.share),
                "nothing without client_id or principal: a share is a part of the group's records",
            )


def _shared_groups(config: Config) -> Iterator[Finding]:
    for (left_path, left), (right_path, right) in itertools.combinations(_pools(config), 2):
        shared = sorted(_clusters(left) & _clusters(right))
        overlap = next(
            (pair for pair in itertools.product(_upstream_groups(left), _upstream_groups(right)) if may_overlap(*pair)),
            None,
        )
        if shared and overlap:
            allowed = (
                f"upstream groups of its own on {', '.join(shared)}, but group {overlap[1]!r} may be {overlap[0]!r} of"
                f" {format_path(left_path)} too: set upstream_group_prefix in both, or group_less, or narrow the groups"
            )
            others = [
                (*path, key) for path in (left_path, right_path) for key in ("group_less", "upstream_group_prefix")
            ]
            yield Finding((*right_path, "upstream_group_prefix"), right.upstream_group_prefix, allowed, tuple(others))


def _clusters(pool: PoolConfig) -> frozenset[str]:
    return frozenset(
        source.cluster
        for rule in pool.topics
        for source in ([rule] if isinstance(rule, PrefixRuleConfig) else rule.sources)
    )


def _upstream_groups(pool: PoolConfig) -> list[str]:
    group_less = [] if pool.group_less is None else [pool.group_less]
    return [pool.upstream_group_prefix + group for group in (*pool.groups, *group_less)]

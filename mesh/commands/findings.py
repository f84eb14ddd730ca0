"""The findings of `kafka-mesh doctor`: about each upstream cluster, the groups in it, and certificates."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import ConsumerGroupType, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from mesh.app.from_config import clusters_of, properties_of
from mesh.commands.served_apis import ClusterUnavailable, versions_of
from mesh.config.model import Cluster, Config, PoolTargetConfig
from mesh.config.pool import NamedTopic, PoolConfig
from mesh.listener.certificates import Lifetime, lifetime_in_keystore, lifetime_in_pem, lifetime_of
from mesh.records.spans import ClusterName
from mesh.upstream.admin import LazyAdmin
from mesh.wire.apis import KNOWN_APIS, ApiKey
from mesh.wire.client.messages import VersionRange

PATIENCE: Final = 10.0
"""Seconds for one answer of a cluster."""
CONNECT: Final = 3.0
"""Seconds for a connection to a broker."""
SOON: Final = timedelta(days=30)
"""The time before its end from which on the doctor reports a certificate."""
ASSIGNORS: Final = frozenset({"", "range", "roundrobin", "cooperative-sticky"})
"""The assignors with which kafka-mesh can join a group. A group without members has none."""


class Level(Enum):
    OK = "ok"
    WARNING = "warning"
    """It works, but will cause trouble."""
    PROBLEM = "problem"
    """Something does not work."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """A finding of the doctor. about: what was checked. remedy: the advice; "" for none."""

    level: Level
    about: str
    found: str
    remedy: str = ""


def examine(config: Config) -> Iterator[DoctorFinding]:
    """Checks every cluster and certificate; takes seconds for each cluster that does not answer."""
    needs = _needs(config)
    for cluster in config.clusters:
        yield from _of_cluster(cluster, needs.get(cluster.name, ClusterNeeds()))
    yield from _of_certificates(config)


@dataclass(frozen=True, slots=True)
class ClusterNeeds:
    """The needs of pools on one cluster. topics: names. groups: the prefix of upstream group ids, and the patterns of
    ids. metadata: the most characters of commit metadata."""

    topics: tuple[str, ...] = ()
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    metadata: int = 0


def _needs(config: Config) -> Mapping[ClusterName, ClusterNeeds]:
    found: dict[ClusterName, ClusterNeeds] = {}
    for virtual_cluster in config.virtual_clusters:
        if not isinstance(virtual_cluster.target, PoolTargetConfig):
            continue
        pool = virtual_cluster.target.pool
        for name in clusters_of(pool):
            before = found.get(name, ClusterNeeds())
            topics = {*before.topics, *_topics(pool, name)}
            groups = (*before.groups, (pool.upstream_group_prefix, tuple(pool.groups)))
            found[name] = ClusterNeeds(tuple(sorted(topics)), groups, max(before.metadata, pool.metadata_limit))
    return found


def _topics(pool: PoolConfig, cluster: ClusterName) -> Iterator[str]:
    """Yields the topics with names. Only the cluster knows the topics of a prefix."""
    for rule in pool.topics:
        if isinstance(rule, NamedTopic):
            yield from (source.topic for source in rule.sources if source.cluster == cluster)


def _of_cluster(cluster: Cluster, needs: ClusterNeeds) -> Iterator[DoctorFinding]:
    about = f"cluster {cluster.name}"
    remedy = "check bootstrap_servers, the network from here, and the login"
    try:
        versions = _of_versions(about, versions_of(cluster))
    except ClusterUnavailable as problem:
        if problem.__cause__ is not None:  # the mesh's own connections report more than librdkafka, and sooner
            yield DoctorFinding(Level.PROBLEM, about, f"does not answer: {problem.__cause__}", remedy)
            return
        found = f"API versions unknown: {problem}"
        versions = DoctorFinding(
            Level.WARNING, about, found, "the raw engine and relays need the mesh's own connections"
        )
    admin = LazyAdmin({**properties_of(cluster), "bootstrap.servers": cluster.bootstrap_servers})
    try:
        client = admin.client()
        metadata = client.list_topics(timeout=PATIENCE)
    except KafkaException as problem:
        yield DoctorFinding(Level.PROBLEM, about, f"does not answer: {_text(problem)}", remedy)
        return
    try:
        count = len(metadata.brokers)
        yield DoctorFinding(Level.OK, about, f"answers: {several(count, 'broker')}, cluster id {metadata.cluster_id}")
        yield from of_brokers(about, metadata.brokers.values())
        yield versions
        yield from _of_topics(about, client, metadata.topics, needs.topics)
        yield from _of_metadata_limit(about, client, metadata.brokers, needs.metadata)
        yield from _of_groups(cluster.name, client, needs.groups)
    finally:
        admin.close()


def of_brokers(about: str, brokers: Iterable[Any]) -> Iterator[DoctorFinding]:
    """Tries to connect to the advertised address of each broker."""
    with ThreadPoolExecutor(16) as pool:
        tried = [(each, pool.submit(_connect, each.host, each.port)) for each in brokers]
        for broker, outcome in tried:
            problem = outcome.result()
            if problem:
                address = f"{broker.host}:{broker.port}"
                found = f"broker {broker.id} cannot be reached at its advertised address {address}: {problem}"
                yield DoctorFinding(Level.PROBLEM, about, found, "correct advertised.listeners, the network or DNS")


def _connect(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), timeout=CONNECT).close()
    except OSError as problem:
        return problem.strerror or str(problem)
    return ""


def _of_versions(about: str, served: Mapping[int, VersionRange]) -> DoctorFinding:
    known = sum(1 for number in served if number in KNOWN_APIS)
    fetch = served.get(ApiKey.FETCH)
    highest = f", Fetch up to version {fetch.highest}" if fetch is not None else ""
    return DoctorFinding(Level.OK, about, f"serves {known} of {len(KNOWN_APIS)} client APIs{highest}")


def _of_topics(
    about: str, client: AdminClient, topics: Mapping[str, Any], needs: Sequence[str]
) -> Iterator[DoctorFinding]:
    missing = [name for name in needs if name not in topics]
    for name in missing:
        found = f"topic {name} does not exist, or may not be described"
        yield DoctorFinding(Level.PROBLEM, about, found, "create it, or grant DESCRIBE and READ on it")
    for name in needs:
        leaderless = (
            [str(number) for number, each in topics[name].partitions.items() if each.leader < 0]
            if name in topics
            else []
        )
        if leaderless:
            found = f"topic {name}: partitions {', '.join(leaderless)} have no leader"
            yield DoctorFinding(Level.WARNING, about, found, "bring their brokers back; the other partitions are read")
    there = [name for name in needs if name in topics]
    if there:
        yield from _of_rights(about, client, there)


def _of_rights(about: str, client: AdminClient, topics: Sequence[str]) -> Iterator[DoctorFinding]:
    futures = client.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=PATIENCE
    )
    unreadable: list[str] = []
    for name, future in futures.items():
        try:
            allowed = future.result().authorized_operations
        except KafkaException as problem:
            yield DoctorFinding(
                Level.WARNING,
                about,
                f"permissions on topic {name} unknown: {_text(problem)}",
                "brokers report them from Kafka 2.3 on",
            )
            continue
        if allowed is not None and AclOperation.READ not in allowed:
            unreadable.append(name)
    for name in unreadable:
        yield DoctorFinding(Level.PROBLEM, about, f"topic {name} may not be read", "grant READ on it to this principal")
    if not unreadable:
        yield DoctorFinding(Level.OK, about, f"{several(len(topics), 'topic')} of pools there and readable")


def _of_metadata_limit(
    about: str, client: AdminClient, brokers: Mapping[int, Any], used: int
) -> Iterator[DoctorFinding]:
    if not used:
        return
    name = "offset.metadata.max.bytes"
    resources = [ConfigResource(ResourceType.BROKER, str(number)) for number in brokers]
    for resource, future in client.describe_configs(resources, request_timeout=PATIENCE).items():
        try:
            value = future.result()[name].value
        except (KafkaException, KeyError) as problem:
            reason = _text(problem) if isinstance(problem, KafkaException) else "no answer"
            found = f"{name} of broker {resource.name} unknown: {reason}"
            yield DoctorFinding(
                Level.WARNING, about, found, "grant DESCRIBE_CONFIGS on the cluster; else a commit must fail first"
            )
            return
        if int(value) < used:
            found = f"broker {resource.name} allows {value} bytes of commit metadata, and metadata_limit is {used}"
            remedy = f"set {name} to {used} or more; else fewer acknowledgements out of order are remembered"
            yield DoctorFinding(Level.WARNING, about, found, remedy)
            return
    yield DoctorFinding(Level.OK, about, f"commit metadata of {used} characters fits")


def _of_groups(
    cluster: ClusterName, client: AdminClient, needs: Sequence[tuple[str, tuple[str, ...]]]
) -> Iterator[DoctorFinding]:
    if not needs:
        return
    about = f"cluster {cluster}"
    try:
        listed = client.list_consumer_groups(request_timeout=PATIENCE).result()
    except KafkaException as problem:
        yield DoctorFinding(Level.WARNING, about, f"groups unknown: {_text(problem)}", "grant DESCRIBE on groups")
        return
    kinds = {each.group_id: each.type for each in listed.valid}
    named = sorted(group for group in kinds if any(_is_of(group, prefix, patterns) for prefix, patterns in needs))
    futures: Mapping[str, Future[Any]] = (
        client.describe_consumer_groups(named, include_authorized_operations=True, request_timeout=PATIENCE)
        if named
        else {}
    )
    clean = 0
    for group, future in futures.items():
        findings = list(_of_group(f"group {group} in {cluster}", future, kinds[group]))
        clean += not findings
        yield from findings
    if clean:
        yield DoctorFinding(Level.OK, about, f"{several(clean, 'group')} of pools can be joined")


def _of_group(about: str, future: Future[Any], kind: Any) -> Iterator[DoctorFinding]:
    try:
        group = future.result()
    except KafkaException as problem:
        yield DoctorFinding(Level.WARNING, about, f"cannot be described: {_text(problem)}", "grant DESCRIBE on it")
        return
    allowed = group.authorized_operations
    if allowed is not None and AclOperation.READ not in allowed:
        yield DoctorFinding(Level.PROBLEM, about, "may not be joined", "grant READ on it to this principal")
    if not group.members:
        return
    hosts = ", ".join(sorted({f"{each.client_id}{each.host}" for each in group.members})[:5])
    if kind == ConsumerGroupType.CONSUMER:
        found = f"{several(len(group.members), 'member')} of the consumer protocol (KIP-848): {hosts}"
        yield DoctorFinding(
            Level.WARNING, about, found, "these consumers take part of its partitions: move them to the mesh"
        )
    elif group.partition_assignor not in ASSIGNORS:
        found = f"its members use the assignor {group.partition_assignor!r}: {hosts}"
        yield DoctorFinding(
            Level.PROBLEM, about, found, "kafka-mesh cannot join beside them: stop them, or let them use range"
        )


def _is_of(group: str, prefix: str, patterns: Iterable[str]) -> bool:
    return group.startswith(prefix) and any(fnmatchcase(group.removeprefix(prefix), each) for each in patterns)


def _of_certificates(config: Config) -> Iterator[DoctorFinding]:
    now = datetime.now(UTC)
    renew = "renew it; the mesh reads it again by itself"
    for about, place, remedy, read in _certificates(config):
        reason = "no certificate can be decoded"
        try:
            lifetime = read()
        except OSError as problem:
            lifetime, reason = None, str(problem)
        if lifetime is None:
            yield DoctorFinding(Level.PROBLEM, about, f"{place} cannot be read: {reason}", remedy)
            continue
        ends = datetime.fromtimestamp(lifetime.ends, UTC)
        if ends < now:
            yield DoctorFinding(Level.PROBLEM, about, f"{place} has ended on {ends:%Y-%m-%d}", renew)
        elif ends < now + SOON:
            yield DoctorFinding(Level.WARNING, about, f"{place} ends on {ends:%Y-%m-%d}", renew)
        else:
            yield DoctorFinding(Level.OK, about, f"{place} is valid until {ends:%Y-%m-%d}")


def _certificates(config: Config) -> Iterator[tuple[str, str, str, Callable[[], Lifetime | None]]]:
    """Yields each certificate: the part that it belongs to, the file, the remedy if it cannot be read, and a function
    that reads its lifetime. Folders of authorities are left out."""
    remedy = "name a PEM file with a certificate"
    for about, path in _certificate_files(config):
        if not Path(path).is_dir():
            yield about, path, remedy, partial(lifetime_of, path)
    for cluster in config.clusters:
        properties = cluster.client_properties()
        for name in ("ssl.certificate.pem", "ssl.ca.pem"):
            if text := properties.get(name):
                read = partial(lifetime_in_pem, str(text).encode())
                yield f"cluster {cluster.name}, {name}", "the certificate", "set a certificate as PEM", read
        if keystore := properties.get("ssl.keystore.location"):
            password = str(properties.get("ssl.keystore.password", ""))
            remedy = "name a PKCS#12 file with a certificate, and its ssl.keystore.password"
            in_keystore = partial(lifetime_in_keystore, str(keystore), password)
            yield f"cluster {cluster.name}, ssl.keystore.location", str(keystore), remedy, in_keystore


def _certificate_files(config: Config) -> Iterator[tuple[str, str]]:
    if config.admin is not None and config.admin.tls is not None:
        yield "admin", str(config.admin.tls.certificate_file)
    for each in config.virtual_clusters:
        if each.tls is not None:
            yield f"virtual cluster {each.name}", str(each.tls.certificate_file)
        for listener in each.listeners:
            if listener.tls is not None:
                yield f"virtual cluster {each.name}, listener {listener.name}", str(listener.tls.certificate_file)
    for cluster in config.clusters:
        properties = cluster.client_properties()
        for name in ("ssl.certificate.location", "ssl.ca.location"):
            if properties.get(name):
                yield f"cluster {cluster.name}, {name}", str(properties[name])


def several(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _text(problem: KafkaException) -> str:
    return str(problem.args[0].str())

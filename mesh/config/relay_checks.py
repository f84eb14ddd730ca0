"""Checks of relays that concern several values together."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.config.finding import Finding
from mesh.config.listeners import ConfiguredListener, ListenerName
from mesh.config.mistakes import KeyPath, format_path
from mesh.config.model import Config, PoolTargetConfig, RelayTargetConfig, VirtualClusterConfig
from mesh.config.relay import NodeIdRanges, NodesConfig, OneNode, RelayAuthentication, RelayConfig
from mesh.config.routers import RouterTargetConfig
from mesh.wire.apis import ApiKey

_NEVER_REFUSED = frozenset({ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


def relays(config: Config) -> Iterator[tuple[KeyPath, VirtualClusterConfig, RelayConfig]]:
    """Yields every relay, with the path and the configuration of its virtual cluster."""
    for index, each in enumerate(config.virtual_clusters):
        if isinstance(each.target, RelayTargetConfig):
            yield ("virtual_clusters", index), each, each.target.relay


def check_relays(config: Config, cluster_names: frozenset[str] | None) -> Iterator[Finding]:
    """Finds the mistakes in relays. cluster_names: the names of all upstream clusters in the file, None if not all are
    known."""
    for path, virtual_cluster, relay in relays(config):
        at = (*path, "target", "relay")
        if cluster_names is not None and relay.cluster not in cluster_names:
            allowed = f"one of the clusters defined: {', '.join(sorted(cluster_names))}"
            yield Finding((*at, "cluster"), relay.cluster, allowed)
        yield from _refused(relay, at)
        yield from _properties(config, relay, at)
        yield from _authentication(virtual_cluster, relay, path)
        if virtual_cluster.is_one_node:
            yield from _one_node(virtual_cluster, relay, path)
        yield from _as_many_nodes(virtual_cluster, path)
        if not virtual_cluster.is_one_node and "coordinator" in virtual_cluster.model_fields_set:
            allowed = "left out: the coordinators of a relay are nodes of its cluster"
            yield Finding((*path, "coordinator"), str(virtual_cluster.coordinator), allowed)
        if virtual_cluster.nodes is None:
            ways = "{ports: FIRST-LAST}, one for each node, {hosts: NAME} with {node} in it, or one"
            allowed = f"required for a relay: {ways}"
            yield Finding((*path, "nodes"), None, allowed)
    for index, each in enumerate(config.virtual_clusters):
        yield from _listeners(each, ("virtual_clusters", index))


def _properties(config: Config, relay: RelayConfig, path: KeyPath) -> Iterator[Finding]:
    """Finds properties that a relay cannot honour: its connections are the mesh's own, not librdkafka's."""
    for index, cluster in enumerate(config.clusters):
        reason = cluster.reason_against_own_connections() if cluster.name == relay.cluster else None
        if reason is not None:
            allowed = f"properties that a relay can honour: {reason}"
            yield Finding(("clusters", index, "properties"), {}, allowed, ((*path, "cluster"),))


def _refused(relay: RelayConfig, path: KeyPath) -> Iterator[Finding]:
    for index, name in enumerate(relay.refuse):
        if name not in ApiKey.__members__:
            allowed = "the name of an API of Kafka, such as CREATE_TOPICS or DELETE_ACLS"
            yield Finding((*path, "refuse", index), name, allowed)
        elif ApiKey[name] in _NEVER_REFUSED:
            yield Finding((*path, "refuse", index), name, "an API that clients can do without")


def _authentication(virtual_cluster: VirtualClusterConfig, relay: RelayConfig, path: KeyPath) -> Iterator[Finding]:
    if virtual_cluster.authorization is not None:
        other: KeyPath = (*path, "authorization")
        if relay.authentication is RelayAuthentication.UPSTREAM:
            allowed = "mesh, with rules of kafka-mesh (authorization): with upstream the cluster's own ACLs hold"
            where = (*path, "target", "relay", "authentication")
            yield Finding(where, relay.authentication.value, allowed, (other,))
        if virtual_cluster.listeners:
            allowed = "left out with authorization: a relay with rules has one listener"
            yield Finding((*path, "listeners"), {}, allowed, (other,))
    if relay.authentication is RelayAuthentication.UPSTREAM and virtual_cluster.sasl is not None:
        allowed = "mesh, where kafka-mesh itself authenticates clients (sasl)"
        where = (*path, "target", "relay", "authentication")
        yield Finding(where, relay.authentication.value, allowed, ((*path, "sasl"),))


def _one_node(virtual_cluster: VirtualClusterConfig, relay: RelayConfig, path: KeyPath) -> Iterator[Finding]:
    """Finds settings that are impossible with all nodes as one."""
    other: tuple[KeyPath, ...] = ((*path, "nodes"),)
    if virtual_cluster.topology_descriptions is not None:
        allowed = "left out with nodes: one: the cluster's own topology descriptions are served, if it has them"
        yield Finding((*path, "topology_descriptions"), {}, allowed, other)
    if relay.authentication is RelayAuthentication.UPSTREAM:
        allowed = "mesh, with nodes: one: clients cannot authenticate at several brokers over one connection"
        yield Finding((*path, "target", "relay", "authentication"), relay.authentication.value, allowed, other)


def _as_many_nodes(virtual_cluster: VirtualClusterConfig, path: KeyPath) -> Iterator[Finding]:
    """Checks that the clients of all listeners see all nodes as one, or those of none do."""
    for index, listener in enumerate(virtual_cluster.listeners):
        if isinstance(listener.nodes, OneNode) is virtual_cluster.is_one_node or virtual_cluster.nodes is None:
            continue
        at = (*path, "listeners", index, "nodes")
        value: object = "one" if isinstance(listener.nodes, OneNode) else {}
        allowed = (
            "one, as at the first listener" if virtual_cluster.is_one_node else "as at the first listener: not one"
        )
        yield Finding(at, value, allowed, ((*path, "nodes"),))


def _listeners(virtual_cluster: VirtualClusterConfig, path: KeyPath) -> Iterator[Finding]:
    target = ((*path, "target"),)
    if isinstance(virtual_cluster.target, PoolTargetConfig):
        yield from _nodes_of_pool(virtual_cluster, (*path, "nodes"))
        if virtual_cluster.listeners:
            allowed = "left out: a pool has one listener"
            yield Finding((*path, "listeners"), {}, allowed, target)
        return
    if isinstance(virtual_cluster.target, RouterTargetConfig) and virtual_cluster.listeners:
        yield Finding((*path, "listeners"), {}, "left out: a router has one listener", target)
    seen: dict[ListenerName, KeyPath] = {}
    for listener in virtual_cluster.all_listeners():
        at = (*path, *listener.path)
        if (first := seen.setdefault(listener.name, at)) != at:
            allowed = f"a name of its own; {format_path((*first, 'name'))} is the same"
            yield Finding((*at, "name"), listener.name, allowed, ((*first, "name"),))
        if listener.nodes is not None:
            yield from _nodes(virtual_cluster, listener, listener.nodes, (*at, "nodes"))


def _nodes_of_pool(virtual_cluster: VirtualClusterConfig, path: KeyPath) -> Iterator[Finding]:
    """Checks the nodes of a pool: they stand for no brokers, so they have no ids."""
    nodes = virtual_cluster.nodes
    if nodes is None:
        return
    if not isinstance(nodes, NodesConfig):
        yield Finding(path, "one", "{ports: FIRST-LAST} for a pool, or left out: then it is one node")
    elif nodes.ports is None or nodes.hosts is not None or nodes.ids:
        yield Finding(path, {}, "ports for a pool, and neither ids nor hosts")


def _nodes(
    virtual_cluster: VirtualClusterConfig, listener: ConfiguredListener, nodes: NodesConfig, path: KeyPath
) -> Iterator[Finding]:
    if (nodes.ports is None) is (nodes.hosts is None):
        yield Finding(path, {}, "exactly one of ports, hosts")
        return
    if nodes.hosts is not None:
        if listener.tls is None:
            allowed = "with tls: clients name the node in their handshake"
            yield Finding((*path, "hosts"), nodes.hosts, allowed, ((*path[:-1], "tls"),))
        if nodes.ids:
            yield Finding((*path, "ids"), nodes.ids, "left out with hosts: every node has a name")
        return
    is_by_leaf = isinstance(nodes.ids, dict)
    if isinstance(virtual_cluster.target, RelayTargetConfig):
        if is_by_leaf:
            yield Finding((*path, "ids"), {}, "a list of ids and FIRST-LAST: a relay has one cluster")
    elif nodes.ids and not is_by_leaf:
        allowed = "a mapping: the ids of each cluster by the routes that lead there, as in {us: [0-9]}"
        yield Finding((*path, "ids"), nodes.ids, allowed)
    yield from _ids(nodes, path)


def _ids(nodes: NodesConfig, path: KeyPath) -> Iterator[Finding]:
    """Finds ids that have no port, or two."""
    lists: list[tuple[KeyPath, NodeIdRanges]] = (
        [((*path, "ids", key), ranges) for key, ranges in nodes.ids.items()]
        if isinstance(nodes.ids, dict)
        else [((*path, "ids"), nodes.ids)]
    )
    ports, declared = len(nodes.ports or ()), 0
    for at, ranges in lists:
        seen: set[int] = set()
        for index, each in enumerate(ranges):
            declared += len(each)
            if declared > ports:
                allowed = f"no more ids than there are ports, which are {ports}"
                yield Finding((*at, index), str(each), allowed, ((*path, "ports"),))
                return
            if not seen.isdisjoint(each):
                yield Finding((*at, index), str(each), "ids that stand there once")
            seen.update(each)

"""The APIs that each virtual cluster of a configuration serves, and why not more: `kafka-mesh check --apis`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, assert_never

from rich.console import Console
from rich.table import Table

from mesh.apis.listener_table import LISTENER_TABLE
from mesh.app.from_config import has_credentials, properties_of, refused_apis
from mesh.app.interception import intercepts_fetch
from mesh.app.request_router_target import SEEN_BY_NAME
from mesh.app.router_making import Routers
from mesh.config.graphs import graph_of
from mesh.config.model import Cluster, Config, PoolTargetConfig, RelayTargetConfig, VirtualClusterConfig
from mesh.config.routers import RouterTargetConfig
from mesh.pool.apis.table import TABLE
from mesh.records.spans import ClusterName
from mesh.routing.choices import Choices
from mesh.routing.graph import Decides, Graph, GraphRouter, Leaf
from mesh.routing.kit.union_apis import SERVED_BY_UNIONS, UNION_APIS, LeafDestination, UnionApi
from mesh.routing.names import Path, RouterName
from mesh.routing.one_node.one_node_apis import ONE_NODE_APIS, BrokerDestination
from mesh.routing.served import common, limited
from mesh.routing.spi import Served
from mesh.upstream.links.connection_settings import connection_settings_or_reason
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.wire.apis import KNOWN_APIS, ApiKey
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange, api_versions_request, decode_api_versions
from mesh.wire.relayed_apis import ADVERTISED_APIS

_POOL: Final = "a pool, independent of its clusters"
Row = tuple[str, str, str, str]
"""An API, the versions that the cluster serves, the versions served here, and the reason for a difference."""


class ClusterUnavailable(Exception):
    """Raised when clusters do not report their APIs."""


class ClusterApis:
    """The clusters of a configuration, each asked once. silent: the clusters that do not report their APIs, with
    reasons."""

    def __init__(self, clusters: Iterable[Cluster]) -> None:
        self._clusters: Final = {cluster.name: cluster for cluster in clusters}
        self._served: Final[dict[ClusterName, Mapping[int, VersionRange]]] = {}
        self.silent: Final[dict[ClusterName, str]] = {}

    def served_by(self, names: Iterable[ClusterName]) -> Mapping[ClusterName, Mapping[int, VersionRange]]:
        """Returns the versions that each cluster serves, without the clusters that do not report them."""
        for name in names:
            if name not in self._served and name not in self.silent:
                try:
                    self._served[name] = versions_of(self._clusters[name])
                except ClusterUnavailable as problem:
                    self.silent[name] = str(problem)
        return {name: self._served[name] for name in names if name in self._served}

    def has_credentials(self, name: ClusterName) -> bool:
        return _has_credentials(self._clusters[name])

    def title(self, title: str, names: Iterable[ClusterName]) -> str:
        """Returns a title with the names of clusters that do not report their APIs."""
        silent = sorted(set(names) - self.served_by(names).keys())
        return f"{title} (unknown: {', '.join(silent)})" if silent else title


def show(config: Config, console: Console) -> None:
    """Prints the APIs. Raises ClusterUnavailable after it has printed all that is known."""
    clusters = ClusterApis(config.clusters)
    for each in config.virtual_clusters:
        for title, rows in _tables(each, config, clusters):
            console.print(title, style="italic")
            if shown := [*rows]:
                console.print(_table(shown))
    if clusters.silent:
        raise ClusterUnavailable("; ".join(clusters.silent.values()))


def _table(rows: Iterable[Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("API", "cluster", "here", "why not more"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _tables(each: VirtualClusterConfig, config: Config, clusters: ClusterApis) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yields the APIs that one virtual cluster serves, with a title; for a router that decides by connections, one
    table for each route."""
    intercepted = refused_by_interceptors(each, config)
    match each.target:
        case PoolTargetConfig():
            yield f"{each.name}: {_POOL}", _of_a_pool()
        case RelayTargetConfig(relay=relay):
            refused = refused_apis(relay, has_credentials=clusters.has_credentials(relay.cluster)) | intercepted
            if each.is_one_node:
                refused |= _not_with_one_node()
            title = f"{each.name}: a relay of {relay.cluster}"
            served = clusters.served_by([relay.cluster])
            if not served:
                yield clusters.title(title, [relay.cluster]), iter(())
            elif each.authorization is None:
                yield title, of_a_relay(refused, served[relay.cluster])
            else:
                yield f"{title}, under rules", of_a_router(served, refused)
        case RouterTargetConfig(router=router):
            graph = graph_of(config, router.name)
            title = f"{each.name}: the router {router.name}"
            limits = dict(_limits(config, graph, each.name))
            for name, served_by_name in _by_name_only(each, config, graph).items():
                limits[name] = limited(served_by_name, limits.get(name))
            if graph.routers[graph.root].decides is not Decides.CONNECTIONS:
                title, rows = _of_leaves(title, graph.leaves, clusters, intercepted)
                yield title, limited_by(rows, limits)
                return
            choices = Choices(graph, {})
            for way, path in choices.paths.items():
                behind = [leaf for leaf in graph.leaves if leaf.path[: len(path)] == path]
                limits_here = {name: limits[name] for name in choices.routers_on_path(way) if name in limits}
                if behind:
                    titled, rows = _of_leaves(f"{title}, route {way}", behind, clusters, intercepted)
                    yield titled, limited_by(rows, limits_here)
                else:
                    yield f"{title}, route {way}: {_POOL}", _of_a_pool()
        case _:
            assert_never(each.target)


def _by_name_only(
    each: VirtualClusterConfig, config: Config, graph: Graph, path: Path = ()
) -> Mapping[RouterName, Served]:
    """Returns the APIs of each router that answers requests itself behind interceptors."""
    router = graph.at(path)
    if not isinstance(router, GraphRouter):
        return {}
    found: dict[RouterName, Served] = {}
    if router.decides is Decides.REQUESTS and (each.interceptors or _are_on(path, config, graph)):
        found[router.name] = SEEN_BY_NAME
    for route in router.routes:
        found |= _by_name_only(each, config, graph, (*path, route.name))
    return found


def _are_on(path: Path, config: Config, graph: Graph) -> bool:
    """Returns whether a route of a path has interceptors."""
    by_name = {each.name: each for each in config.routers}
    for place, name in enumerate(path):
        router = graph.at(path[:place])
        assert isinstance(router, GraphRouter), "a route starts at one"
        if any(route.interceptors for route in by_name[router.name].routes if route.name == name):
            return True
    return False


def _limits(config: Config, graph: Graph, virtual_cluster: str) -> Mapping[RouterName, Served]:
    """Returns the APIs that each router lets clients use, for the routers that leave something out."""
    routers = Routers(graph, config.routers, virtual_cluster)
    try:
        found = {name: routers.serves((name,)) for name in graph.routers}
    finally:
        routers.close()
    return {name: served for name, served in found.items() if served is not None}


def limited_by(rows: Iterable[Row], limits: Mapping[RouterName, Served]) -> Iterator[Row]:
    """Leaves out what routers do not let clients use: whole APIs, or some of their versions."""
    for name, theirs, here, why in rows:
        for router, served in limits.items():
            if here == "-" or ApiKey[name] in LISTENER_TABLE:
                break
            lowest, highest = map(int, here.split("-"))
            kept = common({ApiKey[name]: (lowest, highest)}, served).get(ApiKey[name])
            if kept != (lowest, highest):
                here, why = "-" if kept is None else f"{kept[0]}-{kept[1]}", f"the router {router} serves no more"
        yield name, theirs, here, why


def refused_by_interceptors(each: VirtualClusterConfig, config: Config) -> dict[ApiKey, str]:
    if not intercepts_fetch(each, config.interceptors, config.routers):
        return {}
    return {ApiKey.SHARE_FETCH: "interceptors would not see its records"}


def _of_leaves(
    title: str, leaves: Sequence[Leaf], clusters: ClusterApis, refused: Mapping[ApiKey, str] = MappingProxyType({})
) -> tuple[str, Iterator[Row]]:
    names = {leaf.cluster for leaf in leaves}
    served = clusters.served_by(names)
    return clusters.title(title, names), of_a_router(served, refused) if served else iter(())


def versions_of(cluster: Cluster) -> Mapping[int, VersionRange]:
    """Returns the versions that one broker of the cluster serves. Raises ClusterUnavailable."""
    settings = connection_settings_or_reason(properties_of(cluster))
    if isinstance(settings, str):
        raise ClusterUnavailable(f"{cluster.name}: {settings}")

    def request_for(_served: Mapping[int, VersionRange]) -> ClientRequest:
        return api_versions_request()

    def decode(response: ClientResponse) -> Mapping[int, VersionRange]:
        return decode_api_versions(response)

    async def ask() -> Mapping[int, VersionRange]:
        nodes = Nodes(cluster.name, cluster.bootstrap_servers, settings)
        try:
            return await nodes.ask_any(request_for, decode)
        finally:
            nodes.close()

    try:
        return asyncio.run(ask())
    except Unreachable as problem:
        raise ClusterUnavailable(f"{cluster.name}: API versions unknown: {problem}") from problem


def _not_with_one_node() -> dict[ApiKey, str]:
    return {key: row.reason for key, row in ONE_NODE_APIS.items() if row.destination is BrokerDestination.NOT_SERVED}


def of_a_relay(refused: Mapping[ApiKey, str], theirs: Mapping[int, VersionRange]) -> Iterator[Row]:
    """Yields the rows of a relay. refused: refused APIs, with the reasons. theirs: the APIs that a broker of its
    cluster serves."""
    for number in sorted({*theirs, *KNOWN_APIS}):
        name = ApiKey(number).name if number in KNOWN_APIS else str(number)
        served = theirs.get(number)
        if served is None:
            if number in ADVERTISED_APIS:
                yield name, "-", "-", "the cluster does not serve it"
            continue
        shown = f"{served.lowest}-{served.highest}"
        if number in refused:
            yield name, shown, "-", refused[ApiKey(number)]
        elif number not in ADVERTISED_APIS:
            known = number in KNOWN_APIS
            yield name, shown, "-", "only brokers use it" if known else "this kafka-mesh does not know it"
        else:
            lowest, highest = ADVERTISED_APIS[ApiKey(number)]
            lowest, highest = max(lowest, served.lowest), min(highest, served.highest)
            here = f"{lowest}-{highest}" if lowest <= highest else "-"
            why = "" if here == shown else "this kafka-mesh knows no other versions"
            yield name, shown, here, why


def of_a_router(
    theirs: Mapping[ClusterName, Mapping[int, VersionRange]], refused: Mapping[ApiKey, str] = MappingProxyType({})
) -> Iterator[Row]:
    """Yields the rows of a router. theirs: the APIs that a broker of each of its clusters serves. refused: refused
    APIs, with the reasons."""
    for api_key, row in UNION_APIS.items():
        ranges = {name: served.get(api_key) for name, served in sorted(theirs.items())}
        shown = {name: "-" if each is None else f"{each.lowest}-{each.highest}" for name, each in ranges.items()}
        differs = len(set(shown.values())) > 1
        clusters = ", ".join(map(" ".join, shown.items())) if differs else next(iter(shown.values()))
        yield api_key.name, clusters, *(("-", refused[api_key]) if api_key in refused else _here(api_key, row, ranges))


def _here(api_key: ApiKey, row: UnionApi, ranges: Mapping[ClusterName, VersionRange | None]) -> tuple[str, str]:
    """Returns the versions that a router serves, and why it serves no others."""
    if row.destination is LeafDestination.NOT_SERVED:
        return "-", row.reason
    if lacking := [name for name, each in ranges.items() if each is None]:
        return "-", f"{', '.join(lacking)} does not serve it"
    served = [each for each in ranges.values() if each is not None]
    ours = SERVED_BY_UNIONS[api_key]
    lowest = max(min(ours.lowest, ADVERTISED_APIS[api_key][0]), *(each.lowest for each in served))
    highest = min(each.highest for each in served)
    if highest > ours.highest:
        return f"{lowest}-{ours.highest}", row.reason or "this kafka-mesh knows no other versions"
    least = sorted(name for name, each in ranges.items() if each is not None and each.highest == highest)
    is_less = any(each.highest > highest for each in served)
    return f"{lowest}-{highest}" if lowest <= highest else "-", f"{', '.join(least)} serves no more" if is_less else ""


def _has_credentials(cluster: Cluster) -> bool:
    settings = connection_settings_or_reason(properties_of(cluster))
    return not isinstance(settings, str) and has_credentials(cluster, settings)


def _of_a_pool() -> Iterator[Row]:
    for key, api in sorted({**LISTENER_TABLE, **TABLE}.items()):
        yield key.name, "", f"{api.versions.lowest}-{api.versions.highest}", ""

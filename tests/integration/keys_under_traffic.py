"""Changes of every key of the configuration, there and back, in front of real brokers, while clients of every kind of
target produce and consume."""

from __future__ import annotations

import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

import yaml

from mesh.app.targets import linked_clusters
from mesh.config.load import load
from tests.app.every_key import POOLS, ROWS, SECTION, ChangingConfiguration, Refused, Tree, Where
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import KAFKA_MESH
from tests.integration.processes import START, ChildProcess, eventually
from tests.integration.traffic import Reader, RunningTraffic, Source

WITHIN = 150.0
"""Seconds in which each client must have new records after a reload. Clients wait for some answers for a minute."""
PARTS: Final = ("process", "clusters", "routers", "virtual clusters", "targets")


def name_of(section: str, key: str) -> str:
    """Returns the name of a key."""
    return f"{section}.{key}".lstrip(".")


def part_of(section: str) -> str:
    """Returns the part of a section."""
    if section.startswith("virtual_clusters[].target"):
        return "targets"
    first = section.partition("[]")[0]
    named = {"virtual_clusters": "virtual clusters", "interceptors": "routers", "interceptor_workers": "routers"}
    return named.get(first, first if first in PARTS else "process")


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Clients that a change concerns, and the reason. stand: readers, or a reader and a source of it, that may get no
    new record until the change is taken back. close: virtual clusters that may close connections. again: readers that
    may get records again. anew: sources that need another producer."""

    reason: str
    stand: Sequence[str] = ()
    close: Sequence[str] = ()
    again: Sequence[str] = ()
    anew: Sequence[str] = ()


ORDERS: Final = ["pool/orders", "secure-pool/orders"]
APAC: Final = ["pool/apac", "secure-pool/apac"]
SECURE_US: Final = "secure-union/secure-union-us"
RELAYS: Final = ["relay", "rules", "one", "secure-relay"]
RELAY, ROUTER = "virtual_clusters[].target.relay", "virtual_clusters[].target.router"
EXCEPTIONS: Final[Mapping[str, Interrupted]] = {
    "virtual_clusters": Interrupted("the virtual cluster has ended", stand=["union"]),
    "virtual_clusters[].listen": Interrupted("the clients know only the addresses of before", stand=["*"]),
    "virtual_clusters[].tls": Interrupted("the clients speak TLS", stand=["secure-relay"]),
    "virtual_clusters[].sasl": Interrupted("the clients log in", stand=["secure-relay"]),
    "virtual_clusters[].nodes.hosts": Interrupted("no name server knows the nodes", stand=["secure-relay"]),
    "clusters[].producer_id_tag": Interrupted("it must not change while producers run", anew=["*"]),
    "routers[].type": Interrupted(
        "the router leads no client to a pool", stand=["batch-clients"], again=["batch-clients"]
    ),
    "routers[].config": Interrupted("the topics have other names", stand=["*/*-us"]),
    "routers[].routes[].interceptors": Interrupted("the router leads to one cluster only", stand=[SECURE_US]),
    "routers[].routes[].target.cluster": Interrupted(
        "the other cluster is not there; connections to a removed route are closed", stand=["*/*-us"], close=["*union*"]
    ),
    "routers[].routes[].target.router": Interrupted("the router leads to one cluster only", stand=["clients/*-us"]),
    f"{POOLS}.upstream_group_prefix": Interrupted(
        "the other group has read nothing, and this one none of what the other one has read", again=["pool"]
    ),
    f"{POOLS}.topics[] by name.name": Interrupted("the topic has another name", stand=ORDERS),
    f"{POOLS}.topics[].from[].cluster": Interrupted("the producer writes to the first cluster", stand=ORDERS),
    f"{POOLS}.topics[].from[].topic": Interrupted("no producer writes to the other topic", stand=ORDERS),
    f"{POOLS}.topics[] by prefix.prefix": Interrupted("the topic does not begin with it", stand=APAC),
    f"{POOLS}.topics[] by prefix.cluster": Interrupted("the producer writes to the first cluster", stand=APAC),
    f"{RELAY}.cluster": Interrupted("the other cluster has no such topic", stand=RELAYS, again=RELAYS),
    f"{ROUTER}.name": Interrupted("the other router leads to one cluster only", stand=["union/union-us"]),
}
"""The keys whose value is not one with which all clients can work here."""


class TrafficBed:
    """A process with every kind of target in front of two clusters, and clients of all of them."""

    def __init__(self, part: str, clusters: tuple[KafkaCluster, KafkaCluster], folder: Path) -> None:
        self.changing = ChangingConfiguration(folder, *(each.bootstrap_servers for each in clusters))
        self.base = self.changing.base
        self.base["drain_grace"] = "5s"
        servers = self.base["clusters"][0]["bootstrap_servers"]
        self.values = {"clusters[].bootstrap_servers": Where(0, servers.replace("127.0.0.1", "localhost"))}
        """Values that are true here, in place of those of the rows."""
        self._admin = self.base["admin"]["listen"]
        self._token = self.base["admin"]["token"]
        self.file = folder / "mesh.yaml"
        self._write(self.base)
        config = load(self.file)
        self._linked = {each.name: linked_clusters(each, config.routers) for each in config.virtual_clusters}
        listen = {each["name"]: each["listen"] for each in self.base["virtual_clusters"]}
        self.sources = self._sources(part, clusters, listen)
        self.readers = self._readers(part, listen)
        self._process = ChildProcess([KAFKA_MESH, "run", self.file], log=folder / "mesh.log")
        eventually("/readyz", self._is_ready, timeout=START)
        self.restarted: set[str] = set()
        """The virtual clusters that the last change may have restarted. Their clients may report it a little later."""
        self._traffic = RunningTraffic([*self.sources.values()], self.readers)

    def _login(self, name: str) -> dict[str, str]:
        if not name.startswith("secure"):
            return {}
        return {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "carol",
            "sasl.password": "sesame",
            "ssl.ca.location": str(self.changing.authority.certificate),
            "ssl.endpoint.identification.algorithm": "none",
        }

    def _sources(
        self, part: str, clusters: tuple[KafkaCluster, KafkaCluster], listen: Mapping[str, str]
    ) -> dict[str, Source]:
        """The sources by name: one of each topic of pools, and of each virtual cluster that takes records one for each
        cluster behind it."""
        eu, us = clusters
        made: dict[str, tuple[str, str]] = {"orders": (eu.bootstrap_servers, "orders")}
        made["apac"] = us.bootstrap_servers, "apac.orders"
        create = [(eu, "orders"), (us, "apac.orders")]
        prefix = part.replace(" ", "-")
        for name, clusters_behind in self._linked.items():
            if not clusters_behind:
                continue
            topic = f"{prefix}-{name}"
            made[name] = listen[name], topic
            create.append((eu, topic))
            if "us" in clusters_behind:
                made[f"{name}-us"] = listen[name], f"us.{topic}"
                create.append((us, f"us.{topic}"))
        known = {each: each.admin().list_topics(timeout=30).topics for each in clusters}
        for cluster, topic in create:
            if topic not in known[cluster]:
                cluster.create_topic(topic, 2)
        found = {}
        for name, (servers, topic) in made.items():
            properties = {"bootstrap.servers": servers, "client.id": name, **self._login(name)}
            found[name] = Source(f"{part} {name}", topic, properties)
        return found

    def _readers(self, part: str, listen: Mapping[str, str]) -> list[Reader]:
        prefix = part.replace(" ", "-")
        made = []
        for name in (*listen, "batch-clients"):
            virtual_cluster = name.removeprefix("batch-")
            sources = [name, f"{name}-us"] if self._linked[virtual_cluster] and name in listen else ["orders", "apac"]
            topics = [self.sources[each].topic for each in sources if each in self.sources]
            group = f"a-{prefix}-{name}"
            servers = {"bootstrap.servers": listen[virtual_cluster], "group.id": group, "client.id": name}
            made.append(Reader(name, topics, {**servers, **self._login(name)}))
        return made

    def flows(self, is_meant: Callable[[str, str], bool]) -> list[tuple[Reader, Source]]:
        """Returns readers, each with a source. is_meant: called with the names of a reader, and of both."""
        return [
            (reader, source)
            for reader in self.readers
            for name, source in self.sources.items()
            if source.topic in reader.topics and is_meant(reader.name, f"{reader.name}/{name}")
        ]

    def _write(self, tree: Tree) -> None:
        self.file.write_text(yaml.safe_dump(tree, sort_keys=False))

    def _is_ready(self) -> bool:
        assert self._process.exit_code is None, self._process.log_tail()
        try:
            return self._asked("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def _asked(self, method: str, path: str) -> tuple[int, dict[str, Any]]:
        context = ssl.create_default_context(cafile=str(self.changing.authority.certificate))
        request = urllib.request.Request(f"https://{self._admin}{path}", method=method)
        request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=120, context=context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def reload(self, tree: Tree) -> tuple[int, dict[str, Any]]:
        self._write(tree)
        status, answer = self._asked("POST", "/reload")
        if status == 200:
            self._token = tree["admin"]["token"]
        return status, answer

    def wait_until_all_go_on(self, excepted: Sequence[str]) -> list[str]:
        """Waits until each reader has a record of each of its sources that was produced from now on, and all stored
        ones before. Returns what has not come."""
        numbers = {each.name: each.number for each in self.sources.values()}
        flows = self.flows(lambda *names: not _is_in(excepted, *names))
        deadline = time.monotonic() + WITHIN
        while True:
            flows = [each for each in flows if not _goes_on(*each, numbers[each[1].name])]
            if not flows or time.monotonic() > deadline:
                return [_described(*each, numbers[each[1].name]) for each in flows]
            time.sleep(0.05)

    def problems(self) -> list[tuple[str, str]]:
        """Takes the problems with connections that clients have reported: the virtual cluster, and the problem."""
        taken: list[tuple[str, str]] = []
        clients: list[tuple[str, Source | Reader]] = [*self.sources.items()]
        clients += [(each.name, each) for each in self.readers]
        for name, client in clients:
            virtual_cluster = name.removesuffix("-us").removeprefix("batch-")
            while client.problems:
                taken.append((virtual_cluster, client.problems.pop(0)))
        return [each for each in taken if each[0] in self._linked]

    def may_close(self, changes: Sequence[str]) -> set[str]:
        """Returns the virtual clusters that may close connections for these changes."""
        restarted = {
            found[1]
            for each in changes
            if (found := re.match(r"virtual cluster (\S+): (restarted|added|removed)", each)) is not None
        }
        clusters = {found[1] for each in changes if (found := re.match(r"cluster (\S+): (?!added)", each)) is not None}
        return restarted | {name for name, linked in self._linked.items() if clusters & linked}

    def end(self) -> None:
        self._traffic.end()
        self._process.kill()


def _is_in(patterns: Sequence[str], *names: str) -> bool:
    return any(fnmatch(name, pattern) for name in names for pattern in patterns)


def _goes_on(reader: Reader, source: Source, number: int) -> bool:
    """Returns whether a reader has a record of a source with at least this number, and all stored ones below it."""
    return reader.newest.get(source.name, -1) >= number and not reader.missing(source, number)


def _described(reader: Reader, source: Source, number: int) -> str:
    stored = source.stored[-1] if source.stored else -1
    return (
        f"{reader.name} stands: {source.name} stored {stored}, read {reader.newest.get(source.name)} of {number}, "
        f"missing {reader.missing(source, number)[:5]}; {source.refused[-2:]} {source.problems[-2:]} "
        f"{reader.problems[-2:]}"
    )


@contextmanager
def bed_of(part: str, clusters: tuple[KafkaCluster, KafkaCluster], folder: Path) -> Iterator[TrafficBed]:
    """A bed whose clients all have records. part: the one of `PARTS` that changes."""
    bed = TrafficBed(part, clusters, folder)
    try:
        assert bed.wait_until_all_go_on(()) == []
        yield bed
    finally:
        bed.end()


def change_all(bed: TrafficBed, part: str) -> list[str]:
    """Changes each key of a part, and takes the change back. Returns what went wrong."""
    found: list[str] = []
    for section, rows in ROWS.items():
        for key, row in rows.items():
            if row is SECTION or part_of(section) != part:
                continue
            name = name_of(section, key)
            began = time.monotonic()
            here = _change(bed, name, section, key, bed.values.get(name, row))
            found += here
            print(f"{name}: {time.monotonic() - began:.1f} s", *here, sep="\n    ", flush=True)
    return found


def _change(bed: TrafficBed, name: str, section: str, key: str, row: Any) -> list[str]:
    exception = EXCEPTIONS.get(name, Interrupted(""))
    found = _step(bed, bed.changing.changed(section, key, row), isinstance(row, Refused), exception, exception.stand)
    back = [] if isinstance(row, Refused) else _step(bed, bed.base, False, exception, ())
    return [*(f"{name} there: {each}" for each in found), *(f"{name} back: {each}" for each in back)]


def _step(bed: TrafficBed, tree: Tree, is_refused: bool, exception: Interrupted, may_stand: Sequence[str]) -> list[str]:
    """Reloads, and returns what went wrong. may_stand: as in `Interrupted`."""
    again = {each.name: len(each.again) for each in bed.readers}
    status, answer = bed.reload(tree)
    is_right = status == 422 if is_refused else status == 200 and not answer["problems"] and answer["changes"]
    found = [] if is_right else [f"{status} {answer}"]
    for name, source in bed.sources.items():
        if _is_in(exception.anew, name):
            source.begins_anew.set()
    found += bed.wait_until_all_go_on(may_stand)
    may_close = set() if is_refused else bed.may_close(answer.get("changes", ()))
    may_report, bed.restarted = may_close | bed.restarted, may_close
    for virtual_cluster, problem in bed.problems():
        if virtual_cluster not in may_report and not _is_in(exception.close, virtual_cluster):
            found.append(f"{virtual_cluster} closed a connection: {problem}")
    standing = [source for _, source in bed.flows(lambda *names: _is_in(exception.stand, *names))]
    for source in bed.sources.values():
        ended = source.fatal if source not in standing else []
        found += [f"the producer of {source.name} ended: {each}" for each in ended]
        source.fatal.clear()
    for reader in bed.readers:
        more = reader.again[again[reader.name] :]
        if more and not _is_in(exception.again, reader.name):
            found.append(f"{reader.name} read {len(more)} records again: {more[:3]}")
    return found

"""The work of weeks within minutes: memory, tasks, descriptors, threads and series of a mesh end where they began."""

from __future__ import annotations

import os
import socket
import ssl
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mesh.wire.apis import ApiKey
from tests.app.running import RunningMesh
from tests.integration.kafka import KafkaCluster
from tests.integration.processes import eventually, free_port, free_ports
from tests.integration.raw import Endpoint, RawConnection
from tests.integration.security.certificates import Authority
from tests.pool.apis.harness import join_values
from tests.pool.apis.messages import Conversation
from tests.router.test_reload import Writer

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(900)]

TOPIC = "hours-orders"
PATIENT = 60.0
THREADS = 8
AT_ONCE = 100
"""Open connections of each thread."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a process holds. resident: MiB of memory."""

    resident: int
    tasks: int
    descriptors: int
    threads: int
    series: int

    def exceeds(self, before: Footprint) -> dict[str, str]:
        """Returns what is more than `MORE` above another footprint."""
        then, now, more = asdict(before), asdict(self), asdict(MORE)
        return {name: f"{then[name]} -> {now[name]}" for name in now if now[name] > then[name] + more[name]}


MORE = Footprint(resident=64, tasks=10, descriptors=30, threads=4, series=600)
"""How much more there may be at the end. Series: those of APIs, errors and groups that were not seen before."""


class Hours:
    """A mesh in front of one cluster, with targets of each kind."""

    def __init__(self, kafka: KafkaCluster, folder: Path) -> None:
        self.authority = Authority(folder / "authority")
        pair = self.authority.issue("mesh")
        pool = {"topics": [{"prefix": "hours-", "cluster": "eu"}], "groups": ["*"], "max_pools": 500}
        relay, ports = {"relay": {"cluster": "eu"}}, free_ports(4)
        rules = {"authorization": {"super_users": ["User:ANONYMOUS"], "rules": []}}
        tls = {"tls": {"certificate_file": str(pair.certificate), "key_file": str(pair.key)}}
        union = {
            "name": "regions",
            "type": "topics",
            "config": {"topics": [{"prefix": "", "route": "eu"}], "default": "eu"},
            "routes": [{"name": "eu", "id": 0, "target": {"cluster": "eu"}}],
        }
        self.addresses = {name: _address() for name in ("pool", "relay", "rules", "union", "tls")}

        def of(name: str, port: int, ids: object, **keys: object) -> dict[str, Any]:
            return {"name": name, "listen": self.addresses[name], "nodes": {"ports": port, "ids": ids}, **keys}

        virtual_clusters = [
            {"name": "pool", "listen": self.addresses["pool"], "coordinator": _address(), "target": {"pool": pool}},
            of("relay", ports[0], [1], target=relay),
            of("rules", ports[1], [1], target=relay, **rules),
            of("union", ports[2], {"eu": [1]}, target={"router": "regions"}),
            of("tls", ports[3], [1], target=relay, **tls),
        ]
        cluster = {"name": "eu", "bootstrap_servers": kafka.bootstrap_servers}
        configuration = {"clusters": [cluster], "routers": [union], "virtual_clusters": virtual_clusters}
        self.mesh = RunningMesh(folder, {}, {"drain_grace": "1s", **configuration})
        self.kafka = kafka

    @property
    def coordinator(self) -> Endpoint:
        return Endpoint.of(self.mesh.shop["coordinator"])

    def footprint(self) -> Footprint:
        process = Path(f"/proc/{self.mesh.process.pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        with urllib.request.urlopen(f"{self.mesh.url}/metrics", timeout=PATIENT) as response:
            lines = response.read().decode().splitlines()
        return Footprint(
            resident=int(status["VmRSS"].split()[0]) >> 10,
            tasks=int(self.mesh.metric("kafka_mesh_event_loop_tasks")),
            descriptors=len(os.listdir(process / "fd")),
            threads=int(status["Threads"]),
            series=sum(not line.startswith("#") for line in lines),
        )

    def connect(self, count: int) -> None:
        """Opens and closes connections, at all targets in turn; each asks for the metadata of one topic."""
        _in_threads(count, AT_ONCE, lambda numbers: self._connect([*numbers]))

    def _connect(self, numbers: Sequence[int]) -> None:
        targets = [Endpoint.of(self.addresses[name]) for name in ("pool", "relay", "rules", "union")]
        opened = [RawConnection(targets[number % len(targets)]) for number in numbers]
        for number, connection in zip(numbers, opened, strict=True):
            client = Conversation(f"client-{number}")
            connection.tell(client.bytes_of(ApiKey.METADATA, 4, topics=({"name": TOPIC},)))
        for connection in opened:
            assert connection.answer() is not None
            connection.close()

    def join(self, count: int, name: str) -> None:
        """Makes groups of one member each, which leaves again."""
        _in_threads(count, 10, lambda numbers: self._join([f"{name}-{number}" for number in numbers]))

    def _join(self, groups: Sequence[str]) -> None:
        for group in groups:
            self._join_and_leave(RawConnection(self.coordinator), group)

    def _join_and_leave(self, connection: RawConnection, group: str) -> None:
        client = Conversation(group)

        def ask(api_key: ApiKey, version: int, **values: object) -> Any:
            connection.tell(client.bytes_of(api_key, version, **values))
            answer = connection.answer()
            assert answer is not None
            ((_, found),) = client.answers(len(answer).to_bytes(4, "big") + answer)
            return found

        member = ask(ApiKey.JOIN_GROUP, 3, **join_values(group_id=group, member_id=""))
        assert member.error_code == 0, (group, member)
        left = ask(ApiKey.LEAVE_GROUP, 1, group_id=group, member_id=member.member_id)
        assert left.error_code == 0, (group, left)
        connection.close()

    def make_topics(self, count: int, name: str) -> None:
        """Makes topics, a hundred at a time, waits until the union shows them, and deletes them again."""
        admin, seen = (AdminClient({"bootstrap.servers": each}) for each in (self.kafka.bootstrap_servers, self.union))
        for first in range(0, count, AT_ONCE):
            names = [f"hours-{name}-{number}" for number in range(first, first + AT_ONCE)]
            for made in admin.create_topics([NewTopic(each, 1, 1) for each in names]).values():
                made.result(PATIENT)
            wanted = set(names)
            eventually("the topics", lambda wanted=wanted: wanted <= _topics(seen), timeout=PATIENT)  # type: ignore[misc]
            for deleted in admin.delete_topics(names).values():
                deleted.result(PATIENT)
        eventually("no topic", lambda: not any(name in each for each in _topics(seen)), timeout=PATIENT)

    @property
    def union(self) -> str:
        return self.addresses["union"]

    def reload(self, count: int) -> None:
        """Changes a limit of every virtual cluster, and a property of the cluster at each tenth time."""
        for number in range(count):
            for each in self.mesh.configuration["virtual_clusters"]:
                each["limits"] = {"connections": 4_000 + number}
            if number % 10 == 9:
                self.mesh.configuration["clusters"][0]["properties"] = {"client.id": f"mesh-{number}"}
            self.mesh.write()
            asked = urllib.request.Request(f"{self.mesh.url}/reload", method="POST")
            with urllib.request.urlopen(asked, timeout=PATIENT) as response:
                assert response.status == 200

    def shake_hands(self, count: int) -> None:
        """Begins TLS handshakes, half of which never end: the mesh closes those. They come from another network than
        the others, since a network may have a part of all handshakes."""
        _in_threads(count, AT_ONCE // 2, lambda numbers: self._shake_hands([*numbers]))

    def _shake_hands(self, numbers: Sequence[int]) -> None:
        endpoint = Endpoint.of(self.addresses["tls"])
        trusting = ssl.create_default_context(cafile=str(self.authority.certificate))
        trusting.check_hostname = False
        with ExitStack() as opened:
            unfinished = list[socket.socket]()
            for number in numbers:
                source = "127.0.0.1" if number % 2 else "127.0.1.1"
                place = endpoint.host, endpoint.port
                plain = socket.create_connection(place, timeout=PATIENT, source_address=(source, 0))
                if number % 2:
                    plain.sendall(b"\x16\x03\x01\x02\x00\x01")
                    unfinished.append(opened.enter_context(plain))
                else:
                    whole = opened.enter_context(trusting.wrap_socket(plain))
                    whole.sendall(Conversation("secured").bytes_of(ApiKey.API_VERSIONS, 0))
                    assert whole.recv(4)
            for each in unfinished:
                assert _is_closed(each)


@pytest.fixture(scope="module")
def hours(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hours]:
    kafka.create_topic(TOPIC, 2)
    found = Hours(kafka, tmp_path_factory.mktemp("hours"))
    yield found
    found.mesh.process.kill()


@pytest.mark.parametrize(
    ("what", "first", "then"),
    [
        pytest.param(partial(Hours.connect), 2_000, 20_000, id="connections"),
        pytest.param(partial(Hours.join, name="group"), 400, 4_000, id="groups"),
        pytest.param(partial(Hours.make_topics, name="topic"), 500, 3_000, id="topics"),
        pytest.param(partial(Hours.reload), 10, 60, id="reloads"),
        pytest.param(partial(Hours.shake_hands), 300, 3_000, id="handshakes"),
    ],
)
def test_nothing_is_left_behind(hours: Hours, what: Callable[[Hours, int], None], first: int, then: int) -> None:
    writer = Writer(hours.union)
    writer.write(TOPIC)
    what(hours, first)
    before = hours.footprint()
    what(hours, then)
    with suppress(AssertionError):
        eventually("what it held before", lambda: not hours.footprint().exceeds(before), timeout=PATIENT, interval=2)
    after = hours.footprint()
    print(f"MEASURED | {before} | {after}")
    assert after.exceeds(before) == {}
    writer.write(TOPIC)
    assert not writer.failed


def _in_threads(count: int, size: int, work: Callable[[Iterator[int]], object]) -> None:
    """Does the numbered pieces of work in groups of `size`, at `THREADS` at the same time."""
    with ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(work, iter(range(at, at + size))) for at in range(0, count, size)]:
            done.result()


def _topics(admin: AdminClient) -> set[str]:
    return set(admin.list_topics(timeout=PATIENT).topics)


def _is_closed(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1)
    except ConnectionResetError:
        return True


def _address() -> str:
    return f"127.0.0.1:{free_port()}"

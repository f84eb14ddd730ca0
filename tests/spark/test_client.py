"""The driver's requests to the mesh, against a server that answers as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pyspark_kafka_mesh import client as module
from pyspark_kafka_mesh.client import Client, LeaseLost, MeshRefused, MeshUnavailable
from pyspark_kafka_mesh.offsets import Offset, Range
from pyspark_kafka_mesh.options import Options
from tests.integration.processes import free_port

RANGE = Range("eu", "orders", 0, 5, 9)
HELD = Offset("job", "a", (RANGE,), (("eu", "eu:9092"),))
DONE = {"done": [RANGE.to_json()], "lost": [], "absent": []}
REST = Range("eu", "orders", 0, 7, 9)
SETTLED: dict[str, Any] = {"done": [], "lost": [], "absent": []}


def granted(*ranges: Range) -> dict[str, Any]:
    return {"lease": "a", "deadline": 1.0, "ranges": [each.to_json() for each in ranges], "bootstrap_servers": {}}


def backlog_of(*ranges: Range) -> dict[str, Any]:
    places = [{"cluster": each.cluster, "topic": each.topic, "partition": each.partition} for each in ranges]
    return {"active": True, "partitions": places}


class FakeMesh:
    """A fake mesh. answers: the next answers, status and body; it repeats the last one. asked: path, body, and
    token."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, Any, str | None]] = []
        mesh = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                mesh.asked.append((self.path, body, self.headers["authorization"]))
                status, answer = mesh.answers.pop(0) if len(mesh.answers) > 1 else mesh.answers[0]
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, format: str, *arguments: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _, _ in self.asked]


@contextmanager
def serving() -> Iterator[FakeMesh]:
    mesh = FakeMesh()
    threading.Thread(target=mesh.server.serve_forever, daemon=True).start()
    yield mesh
    mesh.server.shutdown()
    mesh.server.server_close()


@pytest.fixture
def mesh(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMesh]:
    monkeypatch.setattr(module, "RETRY_AFTER", 0.01)
    with serving() as mesh:
        yield mesh


@pytest.fixture
def other(mesh: FakeMesh) -> Iterator[FakeMesh]:
    """Another process of the same mesh."""
    with serving() as other:
        yield other


def client_of(*meshes: FakeMesh, **more: Any) -> Client:
    return Client(Options(tuple(mesh.url for mesh in meshes), "vc", ("orders",), "shop", **more))


def test_a_lease_becomes_an_offset(mesh: FakeMesh) -> None:
    answer = {"lease": "b", "deadline": 1.0, "ranges": [RANGE.to_json()], "bootstrap_servers": {"eu": "eu:9092"}}
    mesh.answers = [(200, answer | {"isolation": "read_uncommitted"}), (200, answer)]
    leased = client_of(mesh, token="secret").lease(HELD, 100)
    assert leased == Offset("job", "b", (RANGE,), (("eu", "eu:9092"),), "read_uncommitted")
    assert client_of(mesh).lease(HELD, 100).isolation == "read_committed", "an older mesh does not say"
    path, body, token = mesh.asked[0]
    assert (path, token) == ("/leases", "Bearer secret")
    assert body == {
        "virtual_cluster": "vc",
        "group": "shop",
        "holder": "job",
        "topics": ["orders"],
        "max_records": 100,
        "max_bytes": None,
        "ttl": 1_800.0,
        "completed": "a",
        "wait": module.WAIT,
        "ends": None,
    }


def test_a_request_with_ends_waits_for_partitions_that_move(mesh: FakeMesh) -> None:
    mesh.answers = [(200, {"lease": "b", "deadline": 1.0, "ranges": [], "bootstrap_servers": {}})]
    assert client_of(mesh).lease(HELD, None, []) is HELD
    assert (mesh.asked[0][1]["wait"], mesh.asked[0][1]["ends"]) == (module.WAIT, [])


def test_the_first_lease_of_a_query_is_short(mesh: FakeMesh) -> None:
    mesh.answers = [(200, {"lease": "b", "deadline": 1.0, "ranges": [], "bootstrap_servers": {}})]
    start = Offset("job")
    assert client_of(mesh).lease(start, None) is start
    assert mesh.asked[0][1]["ttl"] == module.FIRST_TTL


def test_what_fails_for_the_moment_is_tried_again(mesh: FakeMesh) -> None:
    mesh.answers = [(503, {"error": "not_stored", "detail": "later"}), (500, "x"), (200, DONE)]
    client_of(mesh).acknowledge(HELD)
    assert mesh.paths == ["/leases/a/acknowledge"] * 3
    assert mesh.asked[0][1]["ranges"] == [RANGE.to_json()]


def test_what_cannot_be_done_is_said_at_once(mesh: FakeMesh) -> None:
    mesh.answers = [(404, {"error": "unknown_topic", "detail": "virtual cluster 'vc' has no topic 'orders'"})]
    with pytest.raises(MeshRefused, match="has no topic 'orders'"):
        client_of(mesh).lease(HELD, None)
    assert len(mesh.asked) == 1


def test_a_mesh_that_is_not_there_is_said_in_the_end() -> None:
    options = Options((f"http://127.0.0.1:{free_port()}",), "vc", ("orders",), "shop", timeout=0.0)
    with pytest.raises(MeshUnavailable, match=r"did not do it in time: .*refused"):
        Client(options).acknowledge(HELD)


def test_ranges_that_moved_are_waited_for(mesh: FakeMesh) -> None:
    mesh.answers = [(200, DONE | {"absent": [RANGE.to_json()]}), (200, DONE)]
    client_of(mesh).claim(HELD)
    assert mesh.paths == ["/leases/a/claim"] * 2
    mesh.answers = [(200, DONE | {"absent": [RANGE.to_json()]})]
    with pytest.raises(MeshUnavailable, match="1 ranges of lease a are not assigned"):
        client_of(mesh, timeout=0.0).claim(HELD)


def test_what_others_took_is_an_error_unless_it_may_be(mesh: FakeMesh) -> None:
    mesh.answers = [(200, DONE | {"lost": [RANGE.to_json()]})]
    with pytest.raises(LeaseLost, match=r"5 offsets of lease a are lost \(eu/orders-0 5..9\)"):
        client_of(mesh).claim(HELD)
    client_of(mesh, fail_on_lease_loss=False).claim(HELD)


def test_a_lease_that_the_mesh_forgot_is_claimed_when_it_is_renewed(mesh: FakeMesh) -> None:
    mesh.answers = [(404, {"error": "unknown_lease", "detail": "ended"}), (200, DONE)]
    client_of(mesh).renew(HELD)
    assert mesh.paths == ["/leases/a/renew", "/leases/a/claim"]


def test_what_the_mesh_does_not_hold_any_more_is_claimed_when_the_rest_is_renewed(mesh: FakeMesh) -> None:
    """Once: the next renewal asks for the absent ranges, and the others wait for it."""
    mesh.answers = [(200, granted(Range("eu", "orders", 0, 5, 6))), (200, SETTLED | {"absent": [REST.to_json()]})]
    client_of(mesh).renew(HELD)
    assert mesh.paths == ["/leases/a/renew", "/leases/a/claim"]
    assert mesh.asked[1][1]["ranges"] == [REST.to_json()]
    assert mesh.asked[1][1]["wait"] == 0.0
    mesh.asked.clear()
    mesh.answers = [(200, granted(RANGE))]
    client_of(mesh).renew(HELD)
    assert mesh.paths == ["/leases/a/renew"]


# Several processes


def test_what_has_moved_to_another_process_is_acknowledged_there(mesh: FakeMesh, other: FakeMesh) -> None:
    mesh.answers = [(200, SETTLED | {"absent": [REST.to_json()], "done": [RANGE.to_json()]})]
    other.answers = [(200, backlog_of(REST)), (200, SETTLED)]
    client_of(mesh, other).acknowledge(HELD)
    assert mesh.paths == ["/leases/a/acknowledge"]
    assert other.paths == ["/leases/backlog", "/leases/a/acknowledge"]
    assert other.asked[0][1].get("wait", 0) == 0, "else it would join the group"
    assert other.asked[1][1]["ranges"] == [REST.to_json()]


def test_the_ends_of_all_processes_count(mesh: FakeMesh, other: FakeMesh) -> None:
    def ends(**of_partitions: int) -> dict[str, Any]:
        places = [Range("eu", "orders", int(name[1:]), 0, 0) for name in of_partitions]
        answer = backlog_of(*places)
        for each, end in zip(answer["partitions"], of_partitions.values(), strict=True):
            each["end"] = end
        return answer

    mesh.answers = [(200, ends(p0=5, p1=7))]
    other.answers = [(200, ends(p1=8, p2=3))]
    found = client_of(mesh, other).ends()
    assert [(each["partition"], each["end"]) for each in found] == [(0, 5), (1, 8), (2, 3)]
    assert [body.get("wait", 0) > 0 for _, body, _ in mesh.asked + other.asked] == [True, False]
    other.answers = [(500, {})]
    assert len(client_of(mesh, other).ends()) == 2


def test_a_process_that_does_not_have_it_either_is_not_asked_to(mesh: FakeMesh, other: FakeMesh) -> None:
    """For that it would join the group, and partitions would move."""
    mesh.answers = [(200, SETTLED | {"absent": [REST.to_json()]}), (200, SETTLED)]
    other.answers = [(200, {"active": False, "partitions": []})]
    client_of(mesh, other).claim(HELD)
    assert mesh.paths == ["/leases/a/claim"] * 2
    assert [body["wait"] for _, body, _ in mesh.asked] == [0.0] * 2
    assert other.paths == ["/leases/backlog"]


def test_a_lease_is_renewed_where_its_parts_are(mesh: FakeMesh, other: FakeMesh) -> None:
    mesh.answers = [(200, granted(Range("eu", "orders", 0, 5, 6)))]
    other.answers = [(200, granted(REST))]
    client_of(mesh, other).renew(HELD)
    assert (mesh.paths, other.paths) == (["/leases/a/renew"], ["/leases/a/renew"])


def test_when_the_first_is_gone_the_next_one_is_asked_from_then_on(mesh: FakeMesh, other: FakeMesh) -> None:
    client = client_of(mesh, other)
    mesh.answers = [(503, {"error": "unavailable", "detail": "stopping"})]
    other.answers = [(200, SETTLED)]
    client.acknowledge(HELD)
    client.acknowledge(HELD)
    assert (mesh.paths, other.paths) == (["/leases/a/acknowledge"], ["/leases/a/acknowledge"] * 2)
    mesh.answers = [(200, SETTLED)]
    other.server.shutdown()
    other.server.server_close()
    client.acknowledge(HELD)
    assert len(mesh.paths) == 2

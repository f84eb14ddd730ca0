"""`kafka-mesh status` against an HTTP server that answers as a mesh does, or otherwise."""

from __future__ import annotations

import copy
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mesh.cli import app
from mesh.commands.status import show

STATUS: Final[dict[str, Any]] = {
    "virtual_clusters": [
        {
            "name": "orders",
            "connections": 2,
            "pools": [
                {
                    "group": "shop",
                    "state": "Stable",
                    "member_count": 1,
                    "lag": 7,
                    "members": [
                        {
                            "id": "evil[red]\x1b[31m-1",
                            "client_id": "c",
                            "client_host": "10.0.0.1",
                            "instance_id": None,
                            "connections": 2,
                            "protocol": "classic",
                            "acknowledge": "commit",
                            "records": 500,
                            "spans": 3,
                            "cap": 500,
                            "oldest_held_seconds": 12.34,
                            "last_heard_seconds": 0.1,
                            "reason": "at its cap, never committed",
                        }
                    ],
                    "partitions": [
                        {
                            "topic": "orders",
                            "partition": 3,
                            "cluster": "us",
                            "upstream_topic": "orders",
                            "upstream_partition": 0,
                            "standing": "active",
                            "source": "down",
                            "committed": 5,
                            "end": 12,
                            "lag": 7,
                            "backlog": 0,
                            "oldest_unacknowledged": {
                                "offset": 5,
                                "member": None,
                                "held_seconds": None,
                                "record_age_seconds": 3.0,
                            },
                        }
                    ],
                }
            ],
        },
        {"name": "idle", "connections": 0, "pools": []},
    ]
}


@contextmanager
def answering(body: bytes, code: int = 200) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code if self.path == "/status" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_table() -> None:
    with answering(json.dumps(STATUS).encode()) as url:
        done = CliRunner().invoke(app, ["status", "--url", url])
    assert done.exit_code == 0, done.output
    for text in ("orders / shop: Stable, lag 7", "500 in 3", "12.3 s", "at its cap, never committed", "us/orders-0"):
        assert text in done.output
    assert "source down" in done.output
    assert "idle: no group has members here" in done.output


def test_a_relay_is_shown_by_its_nodes() -> None:
    node = {
        "address": "mesh:19101",
        "upstream": "broker:9092",
        "legs": 3,
        "requests": 12,
        "bytes_in": 5,
        "bytes_out": 7,
    }
    nodes = [
        {"node": 1, "versions": {"FETCH": [4, 18]}, "problem": "", **node},
        {"node": 7, "versions": {}, "problem": "[red]refused", **node, "address": None},
        {"node": 8, "versions": {}, "problem": "", **node, "further_addresses": {"inside": "10.0.0.1:9", "out": None}},
    ]
    relay = {"name": "front", "connections": 3, "relay": {"cluster": "eu", "nodes": nodes}}
    with io.StringIO() as out:
        show({"virtual_clusters": [relay]}, Console(file=out, width=250))
        text = out.getvalue()
    assert "front / relay of eu: 3 connections" in text
    first, second, third = text.splitlines()[2:5]
    assert first.split()[:4] == ["1", "mesh:19101", "broker:9092", "3"]
    assert second.split()[:2] == ["7", "none"]
    assert "[red]refused" in second
    assert "mesh:19101, inside 10.0.0.1:9, out none" in third


def test_what_is_not_known_is_not_shown_as_a_number() -> None:
    """For a partition of another process, position and lag are not "-1" and "0"."""
    status = copy.deepcopy(STATUS)
    (partition,) = status["virtual_clusters"][0]["pools"][0]["partitions"]
    partition |= {"standing": "suspended", "committed": None, "lag": None, "oldest_unacknowledged": None}
    text = io.StringIO()
    show(status, Console(file=text, width=250))
    (row,) = (line for line in text.getvalue().splitlines() if line.startswith("orders-3"))
    assert row.split() == ["orders-3", "us/orders-0", "source", "down", "12", "0"], "the end, and the backlog"


def test_names_of_clients_do_nothing_to_the_terminal() -> None:
    text = io.StringIO()
    show(STATUS, Console(file=text, width=250, force_terminal=True, no_color=True))
    assert r"evil[red]\x1b[31m-1" in text.getvalue()


@pytest.mark.parametrize("group", ["x[/y]", "a\x1b]0;owned\x07b", "[red]x", "\\[/y]"])
def test_names_of_groups_do_nothing_to_the_terminal(group: str) -> None:
    status = copy.deepcopy(STATUS)
    status["virtual_clusters"][0]["pools"][0]["group"] = group
    text = io.StringIO()
    show(status, Console(file=text, width=250, force_terminal=True, no_color=True))
    assert (
        f"orders / {group.encode('unicode_escape').decode() if not group.isprintable() else group}: " in text.getvalue()
    )


def test_json_and_configuration_file(tmp_path: Path) -> None:
    with answering(json.dumps(STATUS).encode()) as url:
        file = tmp_path / "mesh.yaml"
        text = Path("config/orders.yaml").read_text().replace("127.0.0.1:9644", url.removeprefix("http://"))
        file.write_text(text)
        done = CliRunner().invoke(app, ["status", str(file), "--json"])
    assert (done.exit_code, json.loads(done.stdout)) == (0, STATUS)


@pytest.mark.parametrize(("body", "code"), [(b"not json", 200), (b"{}", 200), (b"[]", 200), (b"", 404), (b"", 503)])
def test_somebody_else_answers(body: bytes, code: int) -> None:
    with answering(body, code) as url:
        done = CliRunner().invoke(app, ["status", "--url", url])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"kafka-mesh: {url}/status ")
    assert done.stderr.count("\n") == 1


def test_a_token_goes_with_it(tmp_path: Path) -> None:
    given: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(STATUS).encode())

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"127.0.0.1:{server.server_port}"
        file = tmp_path / "mesh.yaml"
        admin = f"admin: {{listen: {address}, token: sixteen-characters}}"
        example = Path("config/orders.yaml").read_text()
        file.write_text(example.replace("admin: {listen: 127.0.0.1:9644}", admin))
        environment = {"KAFKA_MESH_ADMIN_TOKEN": "from-the-environment"}
        by_file = CliRunner().invoke(app, ["status", str(file)])
        by_url = CliRunner().invoke(app, ["status", "--url", f"http://{address}"], env=environment)
        server.shutdown()
    assert (by_file.exit_code, by_url.exit_code) == (0, 0), by_file.output + by_url.output
    assert given == ["Bearer sixteen-characters", "Bearer from-the-environment"]


def test_nobody_answers() -> None:
    with answering(b"") as url:
        pass
    done = CliRunner().invoke(app, ["status", "--url", url])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"kafka-mesh: no answer at {url}/status: ")
    assert done.stderr.count("\n") == 1


def test_wrong_usage(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text(Path("config/orders.yaml").read_text().replace("admin: {listen: 127.0.0.1:9644}", ""))
    for arguments in ([], [str(file)], [str(file), "--url", "http://127.0.0.1:1"]):
        done = CliRunner().invoke(app, ["status", *arguments])
        assert done.exit_code == 2, arguments
        assert done.stderr.startswith("kafka-mesh: "), arguments
    assert CliRunner().invoke(app, ["status", "--url", "127.0.0.1:9644"]).exit_code == 1


def test_a_relay_under_rules_is_not_called_a_router() -> None:
    """It has the form of a union of one cluster."""
    front = {"name": "front", "connections": 3, "router": {"leaves": [{"path": "eu", "cluster": "eu", "nodes": []}]}}
    with io.StringIO() as out:
        show({"virtual_clusters": [front]}, Console(file=out, width=250))
        lines = [line.strip() for line in out.getvalue().splitlines()]
    assert lines[:2] == ["front: 3 connections", "front / eu: cluster eu"]


def test_topics_that_are_moved_are_shown() -> None:
    move = {"topic": "orders", "at": "eu", "other": "us", "state": "copying", "left": 3, "per_second": 2}
    router = {"leaves": [], "moves": [{**move, "carried": 0, "problem": ""}]}
    front = {"name": "front", "connections": 3, "router": router}
    with io.StringIO() as out:
        show({"virtual_clusters": [front]}, Console(file=out, width=250))
        lines = [line.strip() for line in out.getvalue().splitlines()]
    assert lines[1] == "orders of front is at eu: copying to us, 3 records left, 2 a second"

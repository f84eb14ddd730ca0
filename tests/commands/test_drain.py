"""`kafka-mesh drain` against an HTTP server that answers as a mesh does, or otherwise."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from typer.testing import CliRunner

from mesh.cli import app


def state(duty: str, held: int = 0, leaving: bool = False) -> Mapping[str, Any]:
    about = {"virtual_cluster": "orders", "group": "billing", "members": 2}
    return {**about, "state": duty, "held": held, "leaving": leaving}


@contextmanager
def answering(answers: Sequence[Mapping[str, Any]], code: int = 200) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Gives these answers one after the other, then the last one forever; yields its address, and its requests."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            asked.append((self.command, self.path))
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(answers[min(len(asked), len(answers)) - 1]).encode())

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_it_waits_until_the_upstream_groups_are_left() -> None:
    answers = [state("draining", 7), state("draining", 7), state("drained", leaving=True), state("drained")]
    with answering(answers) as (url, asked):
        done = CliRunner().invoke(app, ["drain", "--url", url, "--group", "billing", "--grace", "9"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "orders / billing: draining, 2 members hold 7 records",
        "orders / billing: drained, leaving the upstream groups, 2 members",
        "orders / billing: drained, 2 members",
    ]
    assert asked[0] == ("POST", "/drain?group=billing&grace=9.0")
    assert {method for method, _ in asked[1:]} == {"GET"}


def test_it_gives_up_after_a_while() -> None:
    with answering([state("draining", 7)]) as (url, _):
        done = CliRunner().invoke(app, ["drain", "--url", url, "--group", "billing", "--timeout", "0"])
    assert done.exit_code == 1
    assert done.stderr == (
        "kafka-mesh: not drained within 0 s: orders / billing: draining, 2 members hold 7 records; undo with --cancel\n"
    )


def test_it_is_undone() -> None:
    with answering([state("serving", 7)]) as (url, asked):
        done = CliRunner().invoke(app, ["drain", "--url", url, "--group", "billing", "--cancel"])
    assert (done.exit_code, done.stdout) == (0, "orders / billing: serving, 2 members\n")
    assert asked == [("DELETE", "/drain?group=billing")]


def test_what_is_refused_is_told() -> None:
    with answering([{"problem": "virtual_cluster: '', not one of a, b"}], 400) as (url, _):
        done = CliRunner().invoke(app, ["drain", "--url", url, "--group", "billing"])
    assert (done.exit_code, done.stderr) == (1, "kafka-mesh: virtual_cluster: '', not one of a, b\n")


def test_where_it_is_has_to_be_said() -> None:
    done = CliRunner().invoke(app, ["drain", "--group", "billing"])
    assert (done.exit_code, done.stderr) == (2, "kafka-mesh: pass FILE or --url\n")

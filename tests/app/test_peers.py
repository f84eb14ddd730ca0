"""The process to which clients are led."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from structlog.testing import capture_logs

from mesh.app.peers import Peers, ask
from mesh.config.peers import PeersConfig

pytestmark = pytest.mark.anyio
TOKEN = "a-token-of-operators"


def pool(port: int, members: int) -> dict[str, Any]:
    node = {"id": 2 * port, "host": "mesh", "port": port}
    return {"cluster_id": "c", "broker": node, "coordinator": {**node, "port": port + 1}, "members": members}


def instances(**of_each: dict[str, Any]) -> bytes:
    found = [{"instance": name, "virtual_clusters": pools} for name, pools in of_each.items()]
    return json.dumps({"instances": found}).encode()


@contextmanager
def served(body: bytes) -> Iterator[str]:
    """The URL of a server; it refuses requests without the token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.headers["Authorization"] == f"Bearer {TOKEN}"
            self.send_response(200 if is_known and self.path == "/peers" else 401)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def configured(*urls: str) -> PeersConfig:
    return PeersConfig.model_validate({"urls": urls})


async def test_the_one_with_the_fewest_members() -> None:
    first = instances(a={"shop": pool(1, 5), "parts": pool(3, 0)}, own={"shop": pool(9, 0)})
    with served(first) as one, served(instances(b={"shop": pool(5, 4)}, c={})) as two:
        peers = Peers(configured(one, two), TOKEN, "own")
        await peers.ask_all()
    endpoint, parts = peers.best("shop"), peers.best("parts")
    assert endpoint is not None
    assert parts is not None
    assert (str(endpoint.broker), str(endpoint.coordinator)) == ("mesh:5", "mesh:6")
    assert str(parts.broker) == "mesh:3"
    assert peers.best("nothing") is None


async def test_one_that_is_gone_is_told_once_and_named_no_more() -> None:
    with capture_logs() as logs:
        with served(instances(a={"shop": pool(1, 5)})) as url:
            peers = Peers(configured(url), TOKEN, "own")
            await peers.ask_all()
            assert peers.best("shop") is not None
        await peers.ask_all()
        await peers.ask_all()
    assert peers.best("shop") is None
    assert [each["event"] for each in logs] == ["peer does not answer"]


@pytest.mark.parametrize(
    "body",
    [b"", b"ok\n", b"{}", instances(a={"shop": {**pool(1, 1), "members": -1}}), instances(a={"shop": pool(70_000, 1)})],
)
def test_what_is_no_answer_of_a_mesh(body: bytes) -> None:
    with served(body) as url:
        assert ask(url, {"Authorization": f"Bearer {TOKEN}"}, configured(url)) == ()


def test_a_wrong_token() -> None:
    with served(instances(a={})) as url:
        assert ask(url, {}, configured(url)) == ()
        assert len(ask(url, {"Authorization": f"Bearer {TOKEN}"}, configured(url))) == 1

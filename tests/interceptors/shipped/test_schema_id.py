"""`schema_id`: a registry says which schemas a topic has."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import ValidationError

from mesh.interceptors.shipped.schema_id import SchemaId, SchemaIdConfig
from mesh.interceptors.spi import KEEP, Record, Reject
from tests.interceptors.fakes import PRODUCE

SUBJECTS = {7: ["orders-value", "others-value"], 8: ["others-value"]}


class Registry(ThreadingHTTPServer):
    """Answers as a schema registry does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.is_down = False


class Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        id = int(self.path.split("/")[3])
        code = 500 if self.server.is_down else 200 if id in SUBJECTS else 404
        said: object = [{"subject": each, "version": 1} for each in SUBJECTS.get(id, ())]
        body = json.dumps(said if code == 200 else {"error_code": 40_403}).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    registry = Registry()
    thread = threading.Thread(target=registry.serve_forever)
    thread.start()
    yield registry
    registry.shutdown()
    thread.join()
    registry.server_close()


def config(registry: Registry, **more: object) -> SchemaIdConfig:
    return SchemaIdConfig.model_validate({"registry": f"http://127.0.0.1:{registry.server_port}/", **more})


def value(id: int) -> Record:
    return Record(None, b"\0" + id.to_bytes(4, "big") + b"payload")


def test_a_schema_of_the_topic(registry: Registry) -> None:
    interceptor = SchemaId(config(registry))
    assert [interceptor.intercept(value(7), PRODUCE) for _ in range(3)] == [KEEP] * 3
    assert registry.asked == ["/schemas/ids/7/versions"]
    assert interceptor.intercept(Record(b"deleted", None), PRODUCE) is KEEP


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (value(8), "schema 8 is none of the subject orders-value"),
        (value(9), "schema 9 is none of the subject orders-value"),
        (Record(None, b"{}"), "does not begin with the id"),
        (Record(None, b"\0\0\0\7"), "does not begin with the id"),
        (Record(None, b"\1\0\0\0\7"), "does not begin with the id"),
    ],
)
def test_what_is_rejected(registry: Registry, record: Record, reason: str) -> None:
    with pytest.raises(Reject, match=reason):
        SchemaId(config(registry)).intercept(record, PRODUCE)


def test_another_subject(registry: Registry) -> None:
    assert SchemaId(config(registry, subject="others-value")).intercept(value(8), PRODUCE) is KEEP


def test_one_that_is_registered_later_is_found(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    interceptor = SchemaId(config(registry), lambda: now[0])
    for then in (0.0, 9.9):
        now[0] = then
        with pytest.raises(Reject):
            interceptor.intercept(value(9), PRODUCE)
    assert len(registry.asked) == 1
    monkeypatch.setitem(SUBJECTS, 9, ["orders-value"])
    now[0] = 10.0
    assert interceptor.intercept(value(9), PRODUCE) is KEEP


def test_a_registry_that_is_down_is_a_failure_and_no_rejection(registry: Registry) -> None:
    registry.is_down = True
    interceptor = SchemaId(config(registry))
    with pytest.raises(OSError, match="500"):
        interceptor.intercept(value(7), PRODUCE)
    registry.is_down = False
    assert interceptor.intercept(value(7), PRODUCE) is KEEP


def test_a_registry_has_a_url() -> None:
    with pytest.raises(ValidationError, match="http://HOST:PORT"):
        SchemaIdConfig.model_validate({"registry": "file:///etc/passwd"})

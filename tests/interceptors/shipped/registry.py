"""A schema registry that answers as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeRegistry(ThreadingHTTPServer):
    """Answers as a schema registry does. subjects, schemas: by id. asked: paths."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.is_down = False
        self.subjects: Mapping[int, list[str]] = {}
        self.schemas: dict[int, Mapping[str, object]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: FakeRegistry

    def do_GET(self) -> None:
        server = self.server
        server.asked.append(self.path)
        id = int(self.path.split("/")[3])
        if self.path.endswith("/versions"):
            description: object = [{"subject": each, "version": 1} for each in server.subjects.get(id, ())]
            is_there = id in server.subjects
        else:
            description, is_there = server.schemas.get(id), id in server.schemas
        code = 500 if server.is_down else 200 if is_there else 404
        body = json.dumps(description if code == 200 else {"error_code": 40_403}).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Writes nothing."""


@contextmanager
def running() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()
    thread = threading.Thread(target=registry.serve_forever)
    thread.start()
    yield registry
    registry.shutdown()
    thread.join()
    registry.server_close()

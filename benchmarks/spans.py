"""`python -m benchmarks.spans`: CPU of a delivery event in a mesh that sends spans.

The way of `benchmarks.journal`: the same steps of a pool without notes, with notes, with spans that nobody gets, and
with spans that a collector in another process gets over HTTP, in turns, in CPU time of this process with all of its
threads. The events of a GB at full rate are in docs/performance.md, "What the journal costs".
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated

import anyio
import typer
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from benchmarks.journal import EVENTS_OF_WORK, Steps, difference, repeat, said
from benchmarks.machine import describe
from mesh.telemetry.otlp.exporting import Collector
from mesh.telemetry.otlp.tracing import Tracing

STAGES = ("without", "notes", "made", "sent")
LIMIT = 1_000_000


class _Nobody(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


async def costs(endpoint: str, events: int, one_in: int, repetitions: int) -> dict[str, list[float]]:
    """Microseconds of CPU of an event's part of a step, at each stage."""
    collector = Collector(endpoint, {}, None, 5.0, "bench")
    logs = {"made": Tracing(collector, one_in, LIMIT, _Nobody()), "sent": Tracing(collector, one_in, LIMIT)}
    steps = {name: Steps(logs.get(name), name != "without") for name in STAGES}
    found: dict[str, list[float]] = {name: [] for name in STAGES}
    units = events // EVENTS_OF_WORK
    gc.collect()
    gc.freeze()  # as the mesh runs
    for number in range(repetitions + 1):
        for name in STAGES:
            began = time.process_time()
            await repeat(steps[name], None, units, units)
            if name in logs:
                await asyncio.to_thread(_settle, logs[name])
            cost = (time.process_time() - began) / (units * EVENTS_OF_WORK) * 1e6
            if number:  # the first turn fills caches
                found[name].append(cost)
    gc.unfreeze()
    for log in logs.values():
        log.close()
    return found


def _settle(log: Tracing) -> None:
    """Returns when the spans of all events so far were exported."""
    while log._events.qsize():
        time.sleep(0.001)
    log._provider.force_flush()


@contextmanager
def collector() -> Iterator[str]:
    """A collector in a separate process that accepts everything and keeps nothing; its URL."""
    command = [sys.executable, "-m", "benchmarks.spans", "--collector"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child.stdout.readline().strip()
        child.kill()


class _Taker(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def _collect() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Taker)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


def main(
    events: Annotated[int, typer.Option(min=100, help="Of each turn: many short ones are disturbed less.")] = 1_200,
    repetitions: Annotated[int, typer.Option(min=2, help="Turns of each stage.")] = 60,
    one_in: Annotated[list[int], typer.Option(min=1, help="As `otlp.spans.one_in` has it.")] = [1, 100],  # noqa: B006
    collects: Annotated[bool, typer.Option("--collector", hidden=True)] = False,
) -> None:
    """CPU of a delivery event in a mesh that sends spans."""
    if collects:
        _collect()
        return
    print(", ".join(describe().values()))
    for number in one_in:
        with collector() as endpoint:
            found = anyio.run(costs, endpoint, events, number, repetitions, backend_options={"use_uvloop": True})
        for before, name in itertools.pairwise(STAGES):
            print(f"one in {number}, {name}: {said(difference(found[before], found[name]), 'us an event')}")
        print(f"one in {number}: {said(difference(found['without'], found['sent']), 'us of CPU an event')}")


if __name__ == "__main__":
    typer.run(main)

"""The demo as lines of text, one a second: for logs, tests, and simple terminals."""

from __future__ import annotations

import time

from mesh.demo.display.table import Row, Table
from mesh.demo.processes.judge import JudgeVerdict
from mesh.demo.processes.signals import StopRequest
from mesh.demo.stage import CLUSTERS, GROUP, MEMBERS, TOPIC, Stage

POLL = 0.05
PATIENCE = 8.0
"""Seconds without a record after which the end waits no longer."""
DRAIN_TIMEOUT = 120.0
_TICK = 1.0


class Plain:
    """The demo on a plain terminal: feeds, prints, drains."""

    def __init__(self, stage: Stage, stop: StopRequest) -> None:
        self._stage = stage
        self._stop = stop
        self._table = Table(tuple(MEMBERS))
        self._begin = self._next_line = 0.0

    def run(self, duration: float | None, rate: float) -> JudgeVerdict:
        """Starts everything, feeds for `duration` seconds or until a stop, drains, stops everything, and judges."""
        say(f"starting the clusters {' and '.join(CLUSTERS)}, the mesh and {len(MEMBERS)} consumers")
        self._stage.start(rate)
        say(*introduction(self._stage, rate, duration))
        self._begin = time.monotonic()
        self._next_line = self._begin + _TICK
        self._feed(duration)
        self._stage.stop_feeding()
        say("the feeder has stopped; the members take the remaining records")
        self._drain()
        self._stage.stop()
        return self._stage.judge()

    def _feed(self, duration: float | None) -> None:
        end = float("inf") if duration is None else self._begin + duration
        while not self._stop.wait(min(self._next_line, end) - time.monotonic()):
            self._watch()
            if time.monotonic() >= end:
                return

    def _drain(self) -> None:
        """Waits until everything is delivered, until nothing has come for `PATIENCE` seconds, or for `DRAIN_TIMEOUT`
        seconds."""
        started = progress = time.monotonic()
        delivered = -1
        while (now := time.monotonic()) < min(progress + PATIENCE, started + DRAIN_TIMEOUT):
            self._watch()
            count = sum(self._stage.received().values())
            if count >= self._stage.fed.count() and not self._stage.judge().missing:
                break
            if count > delivered:
                delivered, progress = count, now
            time.sleep(POLL)
        self._show()

    def _watch(self) -> None:
        self._stage.check()
        if time.monotonic() >= self._next_line:
            self._show()
            self._next_line += _TICK

    def _show(self) -> None:
        seconds = time.monotonic() - self._begin
        readings = self._stage.endpoint.readings(GROUP)
        say(*self._table.lines(Row(seconds, self._stage.fed.count(), self._stage.received(), readings)))


def introduction(stage: Stage, rate: float, duration: float | None) -> list[str]:
    """Returns the first lines: an explanation of the demo, and the commands for joining in."""
    address = stage.endpoint.bootstrap_servers
    work = max(MEMBERS.values())
    end = "Ctrl-C ends" if duration is None else f"{duration:g} s, or Ctrl-C, end"
    return [
        "",
        f"  {rate:g} records a second go to the topic {TOPIC}, on {' and '.join(CLUSTERS)} in turn.",
        f"  {', '.join(MEMBERS)} share them, as the group {GROUP}, through the mesh at {address}.",
        f"  (slow works {1000 * work:g} ms on each record; the clusters let a new group in after 3 s.)",
        f"  {end} the load; then the members take the remaining records, and the demo counts them.",
        "",
        "  Your own consumer gets all of them too, with another group:",
        "",
        *(f"    {line}" for line in attaching(address, "mine")),
        "",
        f"  (In the group {GROUP} it gets a share, and the records that it takes count as never delivered here.)",
        f"  Metrics: {stage.endpoint.metrics}",
        "",
    ]


def attaching(address: str, group: str) -> list[str]:
    """Returns a consumer for the user: a line for kcat, and five lines of Python."""
    return [
        f"kcat -b {address} -G {group} {TOPIC}",
        "",
        "from confluent_kafka import Consumer",
        f'consumer = Consumer({{"bootstrap.servers": "{address}", "group.id": "{group}"}})',
        f'consumer.subscribe(["{TOPIC}"])',
        "while True:",
        "    print((message := consumer.poll()).value(), message.error())",
    ]


def say(*lines: str) -> None:
    """Prints lines and flushes them at once."""
    print(*lines, sep="\n", flush=True)

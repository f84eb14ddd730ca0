"""Several consumers that catch up on a long topic: their rate after their first commits, and late joiners.

All of them commit every second. Otherwise the five seconds before the first commit would be most of the result.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.bed import Bed, Target
from benchmarks.clients import (
    RESTLESS,
    SHARING,
    SHARING_FEW,
    PythonClient,
    Samples,
    java_command,
    progress,
    report_of,
    so_far,
)
from benchmarks.filling import Topic
from benchmarks.machine import cpu_seconds, peak_mib
from benchmarks.rounds import Measured

CONSUMERS = 4
EVERY_SECOND = {"auto.commit.interval.ms": "1000"}
SETTLED = 2.0
"""Seconds after which each of them has committed once and knows it."""
STEADY = 4.0
"""Measured seconds from then on, if the topic lasts."""
ALONE = 2.0
"""Seconds for which one reads before the others join."""
WATCHED = 8.0
"""Seconds of observation from then on."""
OVER = 0.5
"""Seconds over which a joiner must have its part."""
STEP = 0.05
HALF, WHOLE = 0.5, 0.9
"""Parts of an equal share; no group divides a moment's records exactly."""


@dataclass(slots=True)
class CpuCurve:
    """CPU seconds of some processes from its making on, until it is stopped."""

    pids: Sequence[int]
    samples: list[tuple[float, float]] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._look()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        assert self._thread is not None
        self._thread.join()

    def between(self, begin: float, end: float) -> float:
        """Monotonic seconds."""
        return so_far(self.samples, end) - so_far(self.samples, begin)

    def _run(self) -> None:
        while not self._stopped.wait(STEP):
            self._look()

    def _look(self) -> None:
        self.samples.append((time.monotonic(), sum(map(cpu_seconds, self.pids))))


def steady(bed: Bed, target: Target, topic: Topic, short: bool) -> Measured:
    """Four confluent-kafka consumers of one group: records a second, and CPU of the target, from `SETTLED` seconds
    after the last of them had its first record, until one has its last."""
    settled, seconds = (0.0, 0.5) if short else (SETTLED, STEADY)
    group, clients = bed.group(), []
    with ExitStack() as stack:
        for _ in range(CONSUMERS):
            clients.append(_consumer(bed, target, topic, group, is_modest=short))
            stack.callback(clients[-1].end)
        for client in clients:
            client.until("ready")
        curve = CpuCurve(target.pids)
        stack.callback(curve.stop)
        for client in clients:
            client.say("go")
        for client in clients:
            client.until("first")
        time.sleep(settled + seconds)
        for client in clients:
            client.say("enough")
        reports = [report_of(client) for client in clients]
    begin = max(each[0][0] for each in reports) + settled
    end = min(each[-1][0] for each in reports)
    if end <= begin:
        if not short:  # where each takes all its records at once
            raise RuntimeError(f"the topic was over {begin - end:.1f} s before it was to be measured")
        begin, end = min(each[0][0] for each in reports), max(each[-1][0] for each in reports)
    records = round(sum(so_far(each, end) - so_far(each, begin) for each in reports))
    cost, peak = curve.between(begin, end), sum(map(peak_mib, target.pids))
    return Measured(records / (end - begin), cost, peak, records, records * topic.size)


def late(bed: Bed, target: Target, topic: Topic, with_java: bool, short: bool) -> Measured:
    """One consumer reads alone, three join later. Seconds after which the slowest of these has half of an equal part,
    and, as the second value, all of it; the time for which they were watched if that does not come.

    with_java: one of the three is Kafka's, which commits every five seconds. Its time begins with its first records.
    """
    alone, watched = (0.0, 2.0) if short else (ALONE, WATCHED)
    group, topic_records = bed.group(), bed.records(topic)
    with ExitStack() as stack:
        first = _consumer(bed, target, topic, group)
        stack.callback(first.end)
        late_ones = [_consumer(bed, target, topic, group, "late") for _ in range(CONSUMERS - 1 - with_java)]
        for client in late_ones:
            stack.callback(client.end)
        for client in (first, *late_ones):
            client.until("ready")
        first.say("go")
        first.until("first")
        time.sleep(alone)
        begin = time.monotonic()
        for client in late_ones:
            client.say("go")
        java = _Java(java_command(bed, target, topic, group, topic_records)) if with_java else None
        if java is not None:
            stack.callback(java.end)
        time.sleep(watched)
        for client in (first, *late_ones):
            client.say("enough")
        reports = [report_of(client) for client in (first, *late_ones)]
    joiners = [(begin, each) for each in reports[1:]]
    if java is not None:
        reports.append(java.end())
        joiners.append((reports[-1][0][0] if reports[-1] else begin, reports[-1]))
    half, whole = (max(until(part, each, since, reports, watched) for since, each in joiners) for part in (HALF, WHOLE))
    return Measured(half, second=whole)


def until(part: float, joiner: Samples, since: float, everybody: Sequence[Samples], longest: float) -> float:
    """Seconds after `since` until a joiner has had that part of an equal part for `OVER` seconds; `longest` if it never
    has."""
    for step in itertools.count():
        passed = OVER + step * STEP
        end = since + passed
        if passed > longest:
            return longest
        all_of_it = sum(so_far(each, end) - so_far(each, end - OVER) for each in everybody if each)
        own = so_far(joiner, end) - so_far(joiner, end - OVER) if joiner else 0.0
        if all_of_it and own >= part * all_of_it / len(everybody):
            return passed
    raise AssertionError("steps do not end")


def _consumer(bed: Bed, target: Target, topic: Topic, group: str, *more: str, is_modest: bool = False) -> PythonClient:
    """A consumer that takes all it can until it is told to stop. A modest one takes half of its equal part at most: on
    a short topic none stays empty because others began a second earlier."""
    count = bed.records(topic) // (2 * CONSUMERS) if is_modest else bed.records(topic)
    properties = json.dumps({**(SHARING_FEW if is_modest else SHARING), **RESTLESS, **EVERY_SECOND})
    arguments = (target.bootstrap_servers, group, topic.name, str(count), properties)
    return PythonClient("benchmarks.confluent_consumer", *arguments, *more)


class _Java:
    """Kafka's own tool, until it is ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def end(self) -> Samples:
        """Kills it, if it runs. Returns what it has received, in monotonic seconds."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        whole = [line for line in self._lines if line.endswith("\n")]  # the last one may be cut
        offset, table = time.monotonic() - time.time(), "".join(whole)
        rows = progress(table) if table.count("\n") > 1 else []
        return [(moment + offset, records) for moment, records in rows]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)

"""Unmodified clients and their rates.

A rate is that between the first records and the last; the forming of a group is another case (`starts`). For several
consumers it is the rate while all of them receive. A client that misses records fails the run.
"""

from __future__ import annotations

import bisect
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Literal, TypeAlias, TypeVar

from benchmarks.bed import Bed, Target
from benchmarks.confluent_consumer import Receipts
from benchmarks.filling import Topic

Result = TypeVar("Result")
EAGER = {"queued.min.messages": "1000000"}
"""For a single librdkafka client. By default it rests for a second when its queue has 100,000 records
(fetch.queue.backoff.ms). At 100 bytes that costs nine tenths of its rate, and only the rest would be measured."""
SHARING = {"queued.min.messages": "20000"}
"""For several of them: an eager one would take the others' records."""
SHARING_FEW = {"queued.min.messages": "2000", "fetch.max.bytes": "1000000"}
"""For several of them that share fewer records than `FEW`: three would take all into their queues, and hold them until
they end, when the fourth starts a few seconds late."""
RESTLESS = {"fetch.queue.backoff.ms": "20"}
"""For several of them whose librdkafka supports it (2.2 and later; kcat's may not). Without it they rest for a second
after each answer that fills their queues, and only the size of answers would be measured."""
PATIENCE = 110.0
"""Seconds. A run that takes longer is a failure, not a slow one."""
Client = Literal["kcat", "java", "confluent", "aiokafka", "share"]
PART = 0.6
"""The part of a topic that several consumers must receive. Partitions and records do not divide evenly, and finished
consumers keep tens of thousands of small records in their queues."""
PART_OF_FEW = 0.25
"""The same for a topic with fewer records than `FEW`, most of which may be in such queues."""
FEW = 200_000
RESOLUTION = 0.02
"""Seconds between two samples; shorter times count as one sample."""
Samples: TypeAlias = Sequence[Sequence[float]]
"""(seconds, records so far), ascending."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """records: all that were received. rate: records per second from the first ones on."""

    records: int
    rate: float


def consume(client: Client, bed: Bed, targets: Sequence[Target], topic: Topic, consumers: int = 1) -> Consumed:
    """Consumers of one new group, the n-th on the n-th target. One takes the whole topic, several `PART` of it in
    equal shares. Raises RuntimeError when one does not get its share."""
    records = bed.records(topic)
    part, sharing = (PART, SHARING) if records >= FEW else (PART_OF_FEW, SHARING_FEW)
    count = records if consumers == 1 else int(records * part / consumers)
    group = bed.group()
    places = [targets[number % len(targets)] for number in range(consumers)]
    properties = EAGER if consumers == 1 else sharing
    match client:
        case "java":
            return _performance([java_command(bed, each, topic, group, count) for each in places], count)
        case "share":
            _begin_at_the_earliest(bed, group)
            return _performance([_share(bed, each, topic, group, count) for each in places], count)
        case "kcat":
            return _kcat([_kcat_command(each, topic, group, count, properties) for each in places], count)
        case "confluent" | "aiokafka":
            more = RESTLESS if client == "confluent" and consumers > 1 else {}
            arguments = (group, topic.name, str(count), json.dumps(properties | more))
            module = f"benchmarks.{client}_consumer"
            return _python([(module, each.bootstrap_servers, *arguments) for each in places], count)


def rate_of(samples: Sequence[Samples]) -> float:
    """Records per second of all consumers together while every one of them received; if there was no such time, from
    the first record of any to the last."""
    begin, end = max(each[0][0] for each in samples), min(each[-1][0] for each in samples)
    if end <= begin:
        begin, end = min(each[0][0] for each in samples), max(each[-1][0] for each in samples)
    received = sum(so_far(each, end) - so_far(each, begin) for each in samples)
    return received / (end - begin) if end > begin else sum(each[-1][1] for each in samples) / RESOLUTION


def so_far(samples: Samples, moment: float) -> float:
    """Records so far, between two samples in proportion."""
    index = bisect.bisect_right(samples, moment, key=lambda sample: sample[0])
    if index == len(samples):
        return samples[-1][1]
    if index == 0:
        return 0.0
    (before, few), (after, many) = samples[index - 1], samples[index]
    return few + (many - few) * (moment - before) / (after - before) if after > before else few


def _consumed(samples: Sequence[Samples], count: int) -> Consumed:
    received = [int(each[-1][1]) if each else 0 for each in samples]
    if min(received) < count:
        raise RuntimeError(f"a consumer got {min(received)} of {count} records")
    return Consumed(sum(received), rate_of(samples))


# Python


class PythonClient:
    """A program of this package that says a line, and waits for one."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self._name = f"{module} {' '.join(arguments)}"
        self._watchdog = threading.Timer(PATIENCE, self._process.kill)
        self._watchdog.start()

    def until(self, line: str) -> None:
        """Returns when it has said that; RuntimeError when it reports in its stead: it had no record, or too few."""
        while (said := self.read()) != line:
            if said.startswith("["):
                raise RuntimeError(f"{self._name} reports {said[:100]} instead of {line!r}")

    def read(self) -> str:
        """The next line it says; RuntimeError when it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended: {self._process.communicate()[1]}")
        return line.strip()

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """kill -9."""
        self._watchdog.cancel()
        self._process.kill()
        self._process.communicate()

    def end(self) -> None:
        """Closes its input, and waits for its end."""
        self._watchdog.cancel()
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=15)
        self._process.kill()


def _python(commands: Sequence[tuple[str, ...]], count: int) -> Consumed:
    clients = [PythonClient(*command) for command in commands]
    try:
        for client in clients:
            client.until("ready")
        for client in clients:
            client.say("go")
        reports = [report_of(client) for client in clients]
    finally:
        for client in clients:
            client.end()
    return _consumed(reports, count)


def report_of(client: PythonClient) -> Samples:
    """The progress in its output."""
    while (line := client.read()) in ("ready", "first"):
        pass
    samples: Samples = json.loads(line)
    return samples


# kcat


def _kcat_command(target: Target, topic: Topic, group: str, count: int, properties: Mapping[str, str]) -> list[str]:
    """kcat's command line. It writes a byte for each record, so that the first are seen, and all are counted."""
    all_properties = {**properties, "auto.offset.reset": "earliest"}
    options = [part for name, value in all_properties.items() for part in ("-X", f"{name}={value}")]
    output = ("-f", ".", "-c", str(count))
    return ["kcat", "-q", "-b", target.bootstrap_servers, *options, *output, "-G", group, topic.name]


def _kcat(commands: Sequence[Sequence[str]], count: int) -> Consumed:
    receipts = _together([lambda command=command: _watch_kcat(command) for command in commands])  # type: ignore[misc]
    return _consumed([each.all() for each in receipts], count)


def _watch_kcat(command: Sequence[str]) -> Receipts:
    receipts = Receipts()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    assert process.stdout is not None
    with process:
        _count_bytes(process.stdout, receipts)
    watchdog.cancel()
    return receipts


def _count_bytes(output: IO[bytes], receipts: Receipts) -> None:
    while data := output.read(1 << 16):
        receipts.add(len(data))


# Kafka's own tools


def java_command(bed: Bed, target: Target, topic: Topic, group: str, count: int) -> list[str]:
    """Kafka's own measure of a consumer; it prints what `progress` reads."""
    return _tool(bed, "ConsumerPerformance", target, topic, group, count)


def _share(bed: Bed, target: Target, topic: Topic, group: str, count: int) -> list[str]:
    return _tool(bed, "ShareConsumerPerformance", target, topic, group, count)


def _tool(bed: Bed, name: str, target: Target, topic: Topic, group: str, count: int) -> list[str]:
    arguments = ("--topic", topic.name, "--num-records", str(count), "--group", group, "--timeout", "30000")
    details = (
        "--show-detailed-stats",
        "--reporting-interval",
        str(int(RESOLUTION * 1_000)),
        "--date-format",
        "yyyy-MM-dd HH:mm:ss.SSS",
    )
    address = ("--bootstrap-server", target.bootstrap_servers)
    command = bed.broker.java(f"org.apache.kafka.tools.{name}", *address, *arguments, *details, heap="512m")
    return [part for part in command if not part.startswith("-XX:TieredStopAtLevel")]


def _begin_at_the_earliest(bed: Bed, group: str) -> None:
    """Makes a share group begin at the earliest; the default is the latest."""
    entity = ("--alter", "--entity-type", "groups", "--entity-name", group)
    earliest = ("--add-config", "share.auto.offset.reset=earliest")
    address = ("--bootstrap-server", bed.broker.bootstrap_servers)
    bed.broker.run_tool("kafka.admin.ConfigCommand", *address, *entity, *earliest)


def _performance(commands: Sequence[Sequence[str]], count: int) -> Consumed:
    samples = _together([lambda command=command: _run_tool(command) for command in commands])  # type: ignore[misc]
    # Records after the last line of the table came as well; otherwise the tool would have warned.
    return Consumed(count * len(samples), rate_of(samples))


def _run_tool(command: Sequence[str]) -> Samples:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode or "WARNING: Exiting" in done.stdout:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return progress(done.stdout)


def progress(output: str) -> Samples:
    """What the table of intervals says that Kafka's tools print."""
    lines = [line.split(", ") for line in output.splitlines() if ", " in line]
    names = [name.strip() for name in lines[0]] if lines else []
    if "data.consumed.in.nMsg" not in names:
        raise RuntimeError(f"not a table of intervals:\n{output}")
    # The tool for share groups prints the start of an interval, too.
    moment, column = int(names[0] == "start.time"), names.index("data.consumed.in.nMsg")
    rows = [(datetime.fromisoformat(line[moment]).timestamp(), int(line[column])) for line in lines[1:]]
    rows = [row for row in rows if row[1]]
    if not rows:
        raise RuntimeError(f"no interval with records:\n{output}")
    return rows


def _together(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results of tasks that run at the same time."""
    with ThreadPoolExecutor(max_workers=len(tasks)) as threads:
        return [each.result() for each in [threads.submit(task) for task in tasks]]

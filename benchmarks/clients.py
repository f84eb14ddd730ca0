"""Unmodified clients, and what they say of their own rate."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.bed import Bed, Target, Topic

EAGER = {"queued.min.messages": "1000000"}
"""For librdkafka's clients that are alone. By default one that has 100,000 records in its queue rests for a second
(fetch.queue.backoff.ms): at 100 bytes a tenth of what it can take, and all that is measured is that rest."""
SHARING = {"queued.min.messages": "20000"}
"""For several of them: an eager one would hoard what the others are to have."""
PATIENCE = 150.0
"""Seconds. A run that takes longer is a failure, not a slow one."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """records: all that were received. rate: records per second, without start and join where the client can tell."""

    records: int
    rate: float


def consume(client: str, bed: Bed, target: Target, topic: Topic, group: str, count: int) -> Consumed:
    """One consumer that receives `count` records. Raises RuntimeError when it does not."""
    match client:
        case "java":
            result = _java(bed, target, topic, group, count)
        case "share":
            result = _share(bed, target, topic, group, count)
        case "kcat":
            result = _kcat(target, topic, count)
        case "confluent" | "aiokafka":
            result = _python(client, target, topic, group, count)
        case _:
            raise ValueError(f"{client}: java, share, kcat, confluent or aiokafka")
    if result.records < count:
        raise RuntimeError(f"{client} through {target.name} got {result.records} of {count} records")
    return result


def share_out(client: str, target: Target, topic: Topic, group: str, count: int, consumers: int) -> Consumed:
    """Several consumers of one group, until together they have all records; rate: from the first assignment on."""
    children = [_spawn(client, target, topic, group, count, SHARING) for _ in range(consumers)]
    reports = [json.loads(_output(child)) for child in children]
    total = sum(int(report["records"]) for report in reports)
    if total < count:
        raise RuntimeError(f"{consumers} x {client} through {target.name} got {total} of {count} records")
    begin = min(report["first"] for report in reports if report["first"])
    return Consumed(total, total / (max(report["last"] for report in reports) - begin))


def _python(client: str, target: Target, topic: Topic, group: str, count: int) -> Consumed:
    report = json.loads(_output(_spawn(client, target, topic, group, count, EAGER)))
    return Consumed(int(report["records"]), report["records"] / max(report["last"] - report["first"], 0.001))


def _spawn(
    client: str, target: Target, topic: Topic, group: str, count: int, properties: Mapping[str, str]
) -> subprocess.Popen[str]:
    arguments = (target.bootstrap_servers, group, topic.name, str(count), json.dumps(properties))
    command = [sys.executable, "-m", f"benchmarks.{client}_consumer", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _output(child: subprocess.Popen[str]) -> str:
    try:
        output, errors = child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        raise RuntimeError("a consumer did not end") from None
    if child.returncode:
        raise RuntimeError(errors)
    return output


def _java(bed: Bed, target: Target, topic: Topic, group: str, count: int) -> Consumed:
    arguments = ("--topic", topic.name, "--num-records", str(count), "--group", group, "--timeout", "30000")
    tool = ("org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", target.bootstrap_servers)
    return _performance(bed.broker.java(*tool, *arguments, heap="512m"))


def _share(bed: Bed, target: Target, topic: Topic, group: str, count: int) -> Consumed:
    """A share group begins at the latest unless it is told otherwise."""
    entity = ("--alter", "--entity-type", "groups", "--entity-name", group)
    earliest = ("--add-config", "share.auto.offset.reset=earliest")
    bed.broker.run_tool("kafka.admin.ConfigCommand", "--bootstrap-server", target.bootstrap_servers, *entity, *earliest)
    arguments = ("--topic", topic.name, "--num-records", str(count), "--group", group, "--timeout", "30000")
    tool = ("org.apache.kafka.tools.ShareConsumerPerformance", "--bootstrap-server", target.bootstrap_servers)
    return _performance(bed.broker.java(*tool, *arguments, heap="512m"))


def _performance(command: Sequence[str]) -> Consumed:
    """Kafka's own tools print a table of one line; where it tells the rate of fetching alone, that is taken."""
    quick = [part for part in command if not part.startswith("-XX:TieredStopAtLevel")]
    done = subprocess.run(quick, capture_output=True, text=True, timeout=PATIENCE)
    lines = [line.split(", ") for line in done.stdout.splitlines() if ", " in line]
    if done.returncode or len(lines) < 2:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    row = dict(zip((name.strip() for name in lines[-2]), lines[-1], strict=False))
    rate = row.get("fetch.nMsg.sec") or row["nMsg.sec"]
    return Consumed(int(row["data.consumed.in.nMsg"]), float(rate))


def _kcat(target: Target, topic: Topic, count: int) -> Consumed:
    """Without a group: its rate is over the life of the process, and to join would be most of that."""
    begin = time.monotonic()
    command = [
        "kcat",
        "-q",
        "-C",
        "-b",
        target.bootstrap_servers,
        "-t",
        topic.name,
        "-o",
        "beginning",
        "-c",
        str(count),
        *(part for name, value in EAGER.items() for part in ("-X", f"{name}={value}")),
    ]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return Consumed(count, count / (time.monotonic() - begin))

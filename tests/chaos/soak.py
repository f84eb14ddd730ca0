"""The soak: two clusters, ten members of which three get stuck again and again, and millions of records.

It checks the resident memory of the mesh (bytes), the fate of every record, whether the mesh names the member that
holds back a partition's committed offset and for how long it may, and whether the healthy members go on meanwhile.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from confluent_kafka import Producer

from tests.chaos.soak_member import Options
from tests.integration.jars import kafka_jars
from tests.integration.kafka import CLIENT_PROPERTIES, KafkaCluster
from tests.integration.mesh_process import Mesh
from tests.integration.processes import ChildProcess

MIB = 1 << 20
TOPIC = "orders"
GROUP = "billing"
BUDGET = 128 * MIB
ABOVE_BUDGET = 150 * MIB
GROWTH = 32 * MIB
"""The most additional memory of a soak's second half."""
SIZE = 200
HEALTHY, STUCK = 7, 3
LOCK = 10.0
POLL_INTERVAL = 20.0
"""Seconds after which librdkafka leaves the group for an application that does not poll."""
WINDOW = 30.0
"""Seconds over which the rate of the healthy members is taken: stuck ones come and go meanwhile."""
KEPT = 0.5
"""The part of the fed records that they process in the slowest window."""
HELD = POLL_INTERVAL + 15.0
"""The most seconds for which one member may hold up a partition's committed offset: it then leaves, and others process
its records."""


@dataclass(slots=True)
class Report:
    """The report of a soak. resident: bytes, every half second. longest_held: seconds. named: members that held a
    committed offset for longer than LOCK, according to /status; nameless: how often the metric did not name that
    member. fed: records a second, from `begin` to `end`. slowest: records a second of all healthy members together, in
    the slowest WINDOW of that time."""

    records: int
    seconds: float = 0.0
    resident: list[int] = field(default_factory=list)
    longest_held: float = 0.0
    nameless: int = 0
    named: set[str] = field(default_factory=set)
    lost: int = 0
    again: int = 0
    problems: list[str] = field(default_factory=list)
    named_by_metric: set[str] = field(default_factory=set)
    begin: float = 0.0
    end: float = 0.0
    slowest: float = inf

    @property
    def fed(self) -> float:
        return self.records / (self.end - self.begin) if self.end > self.begin else 0.0

    def __str__(self) -> str:
        highest, half = max(self.resident, default=0), len(self.resident) // 2
        first, second = (max(part, default=0) // MIB for part in (self.resident[:half], self.resident[half:]))
        lines = (
            f"{self.records:,} records in {self.seconds:.0f} s, {self.lost:,} lost, {self.again:,} again",
            f"resident {highest // MIB} MiB at most (first half {first}, second {second}; budget {BUDGET // MIB})",
            f"{self.fed:,.0f} a second were fed, and {self.slowest:,.0f} processed by healthy members in the slowest "
            f"{WINDOW:g} s",
            f"a commit position was held for {self.longest_held:.1f} s at most, by {sorted(self.named)}",
            *self.problems,
        )
        return "\n".join(lines)


def soak(records: int, folder: Path, say: Callable[[str], None] = lambda _: None, rate: float | None = None) -> Report:
    """Feeds so many records (`rate` a second; None: as fast as possible) and watches until all are committed."""
    clusters = [KafkaCluster(name, kafka_jars(), folder / name) for name in ("eu", "us")]
    processes: list[ChildProcess] = []
    mesh: Mesh | None = None
    try:
        for cluster in clusters:
            cluster.create_topic(TOPIC, 3)
        budgets = {"pool": 32 * MIB, "replay": 32 * MIB}
        pool: dict[str, object] = {"lock_timeout": f"{LOCK:g}s", "fast_expiry": "1s", "budgets": budgets}
        process = {"process_id": "mesh-1", "budget": BUDGET}
        mesh = Mesh(clusters, [TOPIC], folder, pool, process=process)
        options = [_options(number, mesh, records, folder) for number in range(HEALTHY + STUCK)]
        for each in options:
            command = [sys.executable, "-m", "tests.chaos.soak_member", each.to_json()]
            out = folder / f"{each.name}.out"
            processes.append(ChildProcess(command, log=folder / f"{each.name}.log", stdout=out))
        report = Report(records)
        _watch(clusters, mesh, report, say, rate)
        for child in processes:
            child.signal(signal.SIGTERM)
        for child in processes:
            child.wait(60)
        _account(options, report)
        return report
    finally:
        for child in processes:
            child.kill()
        if mesh is not None:
            mesh.kill()
        for cluster in clusters:
            cluster.kill()


def _options(number: int, mesh: Mesh, records: int, folder: Path) -> Options:
    is_stuck = number >= HEALTHY
    name = f"stuck-{number}" if is_stuck else f"healthy-{number}"
    return Options(
        bootstrap_servers=mesh.bootstrap_servers,
        group=GROUP,
        topic=TOPIC,
        name=name,
        records=records,
        bitmap=str(folder / f"{name}.seen"),
        stuck_after=500 if is_stuck else 0,
        stuck_seconds=POLL_INTERVAL * 2,
    )


def _watch(
    clusters: Sequence[KafkaCluster], mesh: Mesh, report: Report, say: Callable[[str], None], rate: float | None
) -> None:
    report.begin = begin = time.monotonic()
    feeders = [
        threading.Thread(target=_feed, args=(cluster, number, len(clusters), report.records, rate), daemon=True)
        for number, cluster in enumerate(clusters)
    ]
    for feeder in feeders:
        feeder.start()
    deadline = begin + 1_200 + (report.records / rate if rate else 0)
    told = 0.0
    while True:
        time.sleep(0.5)
        now = time.monotonic()
        report.resident.append(_resident(mesh.pid))
        committed = _look(mesh, report)
        if any(feeder.is_alive() for feeder in feeders):
            report.end = now
        if now > told + 10:
            told = now
            say(f"{now - begin:.0f} s: {committed:,} committed, {report.resident[-1] // MIB} MiB resident")
        if committed >= report.records and not any(feeder.is_alive() for feeder in feeders):
            report.seconds = now - begin
            return
        if now > deadline:
            report.problems.append(f"only {committed:,} of {report.records:,} committed")
            return


def _look(mesh: Mesh, report: Report) -> int:
    """Finds the members that hold up a committed offset, and for how long; returns the offsets committed upstream."""
    committed = 0
    metric = {labels["member"] for labels, _ in mesh.samples("kafka_mesh_commit_held_seconds")}
    report.named_by_metric |= metric
    for virtual in mesh.status()["virtual_clusters"]:
        for pool in virtual["pools"]:
            for partition in pool["partitions"]:
                committed += max(partition["committed"] or 0, 0)
                oldest = partition["oldest_unacknowledged"]
                if oldest is None or (held := oldest["held_seconds"]) is None:
                    continue
                report.longest_held = max(report.longest_held, held)
                if held > LOCK:
                    report.named.add(str(oldest["member"]))
                    # It may have lost it a moment later; a member that held it for long was named before.
                    report.nameless += oldest["member"] not in metric | report.named_by_metric
    return committed


def _feed(cluster: KafkaCluster, number: int, clusters: int, records: int, rate: float | None) -> None:
    producer = Producer(
        {
            **CLIENT_PROPERTIES,
            "bootstrap.servers": cluster.bootstrap_servers,
            "linger.ms": 50,
            "acks": "all",
            "enable.idempotence": True,
            "compression.codec": "lz4",
            "queue.buffering.max.kbytes": 32_768,
        }
    )
    begin = time.monotonic()
    filler = b"." * (SIZE - 8)
    for sent, each in enumerate(range(number, records, clusters)):
        if rate is not None and sent % 500 == 0:
            # sleeping sets the rate, which matters here
            time.sleep(max(0.0, begin + sent / (rate / clusters) - time.monotonic()))
        while True:
            try:
                producer.produce(TOPIC, each.to_bytes(8, "big") + filler)
                break
            except BufferError:
                producer.poll(0.05)
        if sent % 1_000 == 0:
            producer.poll(0)
    producer.flush(120)


def _account(options: Sequence[Options], report: Report) -> None:
    union, total = 0, 0
    for each in options:
        union |= int.from_bytes(Path(each.bitmap).read_bytes(), "little")
        lines = Path(each.bitmap).with_suffix(".out").read_text().splitlines()
        total += json.loads([line for line in lines if '"count"' in line][-1])["count"]
    report.slowest = slowest(
        [_counts(Path(each.bitmap).with_suffix(".out")) for each in options if not each.stuck_after],
        report.begin,
        report.end,
    )
    distinct = union.bit_count()
    report.lost, report.again = report.records - distinct, total - distinct


def _counts(out: Path) -> list[tuple[float, int]]:
    """The number of records that a member had processed, over time."""
    lines = [json.loads(line) for line in out.read_text().splitlines() if '"count"' in line]
    return [(line["at"], line["count"]) for line in lines]


def slowest(members: Sequence[Sequence[tuple[float, int]]], begin: float, end: float) -> float:
    """Records a second of all members together in the slowest WINDOW between these times; members report about every
    second. Infinite if that span is shorter."""

    def processed(at: float) -> int:
        told = (each[bisect_right(each, (at, inf)) - 1] if each and each[0][0] <= at else (at, 0) for each in members)
        return sum(count for _, count in told)

    starts = range(int(end - begin - WINDOW) + 1) if end - begin >= WINDOW else range(0)
    rates = ((processed(begin + at + WINDOW) - processed(begin + at)) / WINDOW for at in starts)
    return min(rates, default=inf)


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4_096


def judge(report: Report) -> list[str]:
    """The problems of a soak, in words."""
    half = len(report.resident) // 2
    first, second = max(report.resident[:half]), max(report.resident[half:])
    wrong = {
        f"{report.lost:,} records are lost": report.lost,
        f"resident memory went to {max(first, second) // MIB} MiB": max(first, second) > BUDGET + ABOVE_BUDGET,
        f"resident memory grew from {first // MIB} to {second // MIB} MiB": second > first + GROWTH,
        f"a commit position was held for {report.longest_held:.1f} s": report.longest_held > HELD,
        f"healthy members processed {report.slowest:,.0f} a second when {report.fed:,.0f} were fed": report.slowest
        < KEPT * report.fed,
        f"{report.nameless} times nobody was named who held it": report.nameless,
        f"a healthy member held it: {sorted(report.named)}": not all(name.startswith("stuck") for name in report.named),
    }
    return [*report.problems, *(text for text, is_so in wrong.items() if is_so)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak")
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--minutes", type=float, default=10.0, help="over which they are fed")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    report = soak(options.records, folder, lambda line: print(line, flush=True), options.records / options.minutes / 60)
    wrong = judge(report)
    print(report, *(f"WRONG: {each}" for each in wrong), sep="\n")
    if wrong:
        print(f"logs: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

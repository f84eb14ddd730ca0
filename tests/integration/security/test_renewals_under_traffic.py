"""Certificates towards a cluster that live 90 seconds, and are renewed three times while everything is in use."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.integration.feeding import log_ends
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import eventually
from tests.integration.security.certificates import Authority, Pair
from tests.integration.security.guarded import Guarded
from tests.integration.security.ways_in import (
    JOURNAL,
    TOPICS,
    Stuck,
    Traffic,
    configuration,
    has_more,
    in_flight_at_leaves,
    problems,
    stuck_members,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
LIFE = timedelta(seconds=90)
RENEWALS, EVERY, KEY_LATER = 3, 45.0, 3.0


def renew(authority: Authority, pair: Pair, life: timedelta = LIFE) -> None:
    """Replaces the certificate, and its key some seconds later."""
    key = pair.key.read_bytes()
    authority.issue("mesh", life=life)
    new = pair.key.read_bytes()
    pair.key.write_bytes(key)
    time.sleep(KEY_LATER)
    pair.key.write_bytes(new)


@pytest.fixture
def mesh(guarded: Guarded, tmp_path: Path) -> Iterator[tuple[MeshProcess, Pair, dict[str, str]]]:
    pair = guarded.authority.issue("mesh", life=LIFE)
    for topic in TOPICS.values():
        guarded.cluster.create_topic(topic, 2)
    whole, listen = configuration(guarded.upstream(pair))
    running = MeshProcess(tmp_path, "renewed", whole)
    yield running, pair, listen
    running.kill()


def renewals(mesh: MeshProcess, cluster: str) -> int:
    """How often all groups have joined this cluster again."""
    entries = mesh.log_entries()
    found = [each for each in entries if each["event"] == "upstream groups use changed files"]
    return len([each for each in found if each["cluster"] == cluster])


@pytest.fixture
def stuck(guarded: Guarded, mesh: tuple[MeshProcess, Pair, dict[str, str]]) -> Iterator[Stuck]:
    running, _, listen = mesh
    with stuck_members(guarded.cluster, running, listen) as found:
        yield found


def test_nothing_stands_while_certificates_are_renewed(
    guarded: Guarded, mesh: tuple[MeshProcess, Pair, dict[str, str]], stuck: Stuck
) -> None:
    """Neither a pool of each engine, nor a relay, a union, dead letters or the journal. Only records that were not
    committed when a group joined again come twice."""
    running, pair, listen = mesh
    traffic = Traffic(
        {"relay": (listen["relay"], TOPICS["raw"]), "union": (listen["union"], TOPICS["librdkafka"])},
        {name: (listen[name], topic) for name, topic in TOPICS.items()},
    )
    traffic.begin()
    try:
        eventually("records come", lambda: all(traffic.read.values()), timeout=60)
        stuck.bury()
        began = time.monotonic()
        for number in range(1, RENEWALS + 1):
            time.sleep(max(0.0, began + (number - 0.5) * EVERY - time.monotonic()))
            renew(guarded.authority, pair, LIFE if number < RENEWALS else timedelta(days=1))
            for cluster in TOPICS:
                eventually(
                    f"groups join again, {number}",
                    lambda cluster=cluster, number=number: renewals(running, cluster) >= number,  # type: ignore[misc]
                    timeout=60,
                )
        time.sleep(max(0.0, began + RENEWALS * EVERY + LIFE.total_seconds() / 2 - time.monotonic()))
        guarded.cluster.stop()  # no connection from before is left
        guarded.cluster.restart()
        at = {way: len(sent) for way, sent in traffic.sent.items()}
        pages = sum(log_ends(guarded.cluster, JOURNAL).values())
        for way in traffic.ways:
            eventually(f"{way} goes on", partial(has_more, traffic, way, at[way]), timeout=60)
        stuck.bury()
        eventually("the journal goes on", lambda: sum(log_ends(guarded.cluster, JOURNAL).values()) > pages, timeout=60)
        for pool, way in (("raw", "relay"), ("librdkafka", "union")):
            value = traffic.sent[way][-1]
            eventually(f"{pool} reads on", lambda pool=pool, value=value: value in traffic.read[pool], timeout=60)  # type: ignore[misc]
    finally:
        traffic.end()
    for pool, way in (("raw", "relay"), ("librdkafka", "union")):
        lost = set(traffic.sent[way][:-2]) - traffic.read[pool].keys()
        assert not lost
    again = sum(count - 1 for read in traffic.read.values() for count in read.values())
    assert again <= in_flight_at_leaves(running)
    eventually("no problem is left", lambda: problems(running) == [], timeout=60)

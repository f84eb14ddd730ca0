"""One record among 10,000 kills every process that reads it: it ends as a dead letter, and the rest is processed."""

from __future__ import annotations

import pytest

from tests.integration.bench import Bench
from tests.integration.consumer import DEAD
from tests.integration.feeding import upstream_records
from tests.integration.members import ConfluentMember
from tests.integration.processes import eventually


@pytest.mark.long
@pytest.mark.timeout(400)
def test_one_bad_record_among_ten_thousand(bench: Bench) -> None:
    mesh = bench.start_mesh(dead_letters={"topic": "{topic}.dead", "create": True, "limit": 5}, fast_expiry="500ms")
    eu, us = bench.clusters
    bad = f"eu-{bench.topic}-777"
    bench.feed(10_000)

    def start(number: int) -> ConfluentMember:
        return bench.confluent(f"member-{number}", commit="sync", dies_of=bad)

    running, started, deaths = [start(0), start(1)], 2, 0

    def is_given_up() -> bool:
        """Supervises two processes, as a supervisor does in production."""
        nonlocal started, deaths
        for member in [each for each in running if each.process.exit_code is not None]:
            assert member.process.exit_code == DEAD
            deaths += 1
            running.remove(member)
            running.append(start(started))
            started += 1
        return mesh.metric("kafka_mesh_dead_letters_total") > 0

    eventually("the bad record is given up", is_given_up, timeout=300)
    assert deaths <= 5 + 12, "halving finds it"
    account = bench.account_when_all_arrived()
    assert set(account.lost) == {bad}
    eventually("all is acknowledged", lambda: mesh.metric("kafka_mesh_in_flight_records") == 0)

    (letter,) = upstream_records(eu, f"{bench.topic}.dead").values()
    stored = bench.stored()[bad]
    about = {name: (value or b"").decode() for name, value in letter.record.headers if name.startswith("kafka-mesh.")}
    original = tuple(header for header in letter.record.headers if not header[0].startswith("kafka-mesh."))
    assert (letter.record.key, letter.record.value, letter.record.timestamp) == (
        stored.record.key,
        stored.record.value,
        stored.record.timestamp,
    )
    assert original == stored.record.headers
    assert int(about.pop("kafka-mesh.time")) > 0
    assert about.pop("kafka-mesh.member").startswith("member-")
    assert about == {
        "kafka-mesh.cluster": "eu",
        "kafka-mesh.topic": bench.topic,
        "kafka-mesh.partition": str(stored.partition),
        "kafka-mesh.offset": str(stored.offset),
        "kafka-mesh.group": bench.group,
        "kafka-mesh.deliveries": "5",
        "kafka-mesh.reason": "its last connection closed",
    }
    assert f"{bench.topic}.dead" not in us.admin().list_topics(timeout=10).topics

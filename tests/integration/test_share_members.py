"""Share members (KIP-932) of a pool over two clusters, one of which is older than KIP-932, with unmodified clients; and
kill -9 of members, of the mesh and of brokers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.jars import NEWEST_CLIENTS, kafka_jars
from tests.integration.kafka import KafkaCluster
from tests.integration.old_kafka import OldKafkaCluster, ZooKeeper
from tests.integration.processes import eventually
from tests.integration.share_members import ShareBench, ShareMember

OLD = "2.8.2"
EARLIEST = {"auto_offset_reset": "earliest"}
EACH_PAIR = pytest.mark.parametrize(
    "bench", [pytest.param("kafka_pair", marks=pytest.mark.smoke), "old_and_new"], indirect=True
)
"""The pair of all tests is enough for `make test`."""


@pytest.fixture(scope="module")
def old_and_new(
    kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    folder = tmp_path_factory.mktemp(f"kafka-{OLD}")
    assert kafka_jars(OLD)
    zookeeper = ZooKeeper(OLD, folder / "zookeeper")
    old = OldKafkaCluster("us", zookeeper, folder / "us")
    yield kafka, old
    old.kill()
    zookeeper.kill()


@pytest.fixture
def bench(kafka: KafkaCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ShareBench]:
    """Of the old and the new cluster, or of those of another fixture."""
    clusters: tuple[KafkaCluster, KafkaCluster] = request.getfixturevalue(getattr(request, "param", "old_and_new"))
    name = re.sub(r"\W+|_", "-", request.node.name.removeprefix("test_")).strip("-")
    bench = ShareBench(clusters, name, tmp_path)
    bench.create_topics()
    yield bench
    bench.end()


@EACH_PAIR
def test_share_members_have_every_record_once(bench: ShareBench) -> None:
    """Of every shape, in every codec; explicit and implicit acknowledgements, librdkafka and Java; from several
    nodes."""
    bench.start_mesh(share=EARLIEST, further_nodes=2)
    members = [bench.share("explicit"), bench.share("implicit", acknowledge="implicit")]
    java = [bench.java_share("java"), bench.java_share("java-4.4", NEWEST_CLIENTS)]
    with bench.feeding_throughout(rate=1_000):
        for member in (*members, *java):
            member.until_delivered(100)
    account = bench.account_when_all_arrived()
    assert not (account.lost or account.unknown or account.twice), str(account)
    assert not [each for each in account.altered if not each.member.startswith("java")], str(account)
    bench.until_all_committed()
    bench.close_members()
    assert not any(member.events["error"] + member.events["commit failed"] for member in bench.members)


@EACH_PAIR
def test_released_records_come_again_with_their_counts(bench: ShareBench) -> None:
    bench.start_mesh(share=EARLIEST)
    members = [bench.share("one", releases=True), bench.share("two", releases=True)]
    bench.feed(3_000)
    bench.account_when_all_arrived().assert_nothing_lost_or_altered()
    bench.until_all_committed()
    released = {place for member in members for place in member.released}
    assert released
    counts: dict[tuple[int, int], list[int]] = {}
    for member in members:
        for place, deliveries in member.deliveries_of.items():
            counts.setdefault(place, []).extend(deliveries)
    for place, deliveries in counts.items():
        assert sorted(deliveries) == ([1, 2] if place in released else [1]), place


def test_mixed_with_members_of_other_kinds(bench: ShareBench) -> None:
    """A group of classic, consumer and share members, with several nodes: each record comes once, and each member gets
    its part."""
    bench.start_mesh(share=EARLIEST, further_nodes=2)
    bench.share("share")
    bench.confluent("classic", commit="sync").until_assigned()
    bench.confluent("consumer", commit="sync", properties={"group.protocol": "consumer"}).until_assigned()
    bench.java_share("java-share")
    with bench.feeding_throughout(rate=1_000):
        for member in bench.members:
            member.until_delivered(200)
    account = bench.account_when_all_arrived()
    assert not (account.lost or account.unknown or account.twice), str(account)
    assert not [each for each in account.altered if each.member != "java-share"], str(account)
    bench.until_all_committed()
    bench.close_members()


def test_killed_share_member(bench: ShareBench) -> None:
    """Its records go to others at once, not after its lock (30 s) or its session (45 s)."""
    mesh = bench.start_mesh(share=EARLIEST)
    doomed = bench.share("doomed", acknowledge="hold")
    bench.feed(3_000)
    doomed.until_delivered(1)
    others: list[ShareMember] = [bench.share("one"), bench.share("two")]
    with bench.feeding_throughout(rate=500):
        for member in others:
            member.until_committed(1)
    eventually(
        "only it holds records",
        lambda: mesh.metric("kafka_mesh_in_flight_records") == mesh.in_flight("doomed") > 0,
    )
    held = {delivery.id for delivery in doomed.deliveries}
    since = time.monotonic()
    doomed.kill()
    eventually("others have what it had", lambda: held <= {each.id for each in bench.deliveries(others)}, timeout=15)
    print(f"after {time.monotonic() - since:.2f} s")
    account = bench.account_when_all_arrived(members=others)
    account.assert_each_once()
    bench.until_all_committed()


@pytest.mark.long
@pytest.mark.timeout(240)
def test_killed_mesh_under_share_members(bench: ShareBench) -> None:
    """No record with an answered acknowledgement comes again, whichever member has it afterwards; none is lost. With
    several nodes."""
    mesh = bench.start_mesh(share=EARLIEST, further_nodes=2)
    members = [bench.share(f"member-{number}") for number in range(3)]
    with bench.feeding_throughout(rate=1_500):
        for member in members:
            member.until_committed(5)
        mesh.kill()
        before = {place for member in members for place in member.accepted}
        seen = {member.name: len(member.deliveries) for member in members}
        mesh.restart()
        for member in members:
            eventually(
                f"{member.name} goes on",
                lambda member=member: len(member.deliveries) > seen[member.name],  # type: ignore[misc]
                timeout=60,
            )
    bench.account_when_all_arrived().assert_nothing_lost_or_altered()
    counted: dict[tuple[int, int], int] = {}
    for member in members:
        for place, deliveries in member.deliveries_of.items():
            counted[place] = counted.get(place, 0) + len(deliveries)
    again = [place for place in before if counted.get(place, 0) > 1]  # a gap is acknowledged, and is no record
    assert not again, f"accepted, and delivered again: {sorted(again)[:10]}"
    bench.until_all_committed()
    bench.close_members()


@pytest.mark.long
@pytest.mark.timeout(240)
def test_killed_broker_under_share_members(bench: ShareBench) -> None:
    """Meanwhile no records come from its partitions; none is lost, and no accepted one comes again."""
    bench.start_mesh(share=EARLIEST)
    members = [bench.share(f"member-{number}") for number in range(2)]
    broker = bench.clusters[0]
    bench.feed(3_000)
    for member in members:
        member.until_committed(3)
    broker.kill()
    with bench.feeding(1_000, clusters=[bench.clusters[1]]):
        pass
    broker.restart()
    bench.feed(2_000)
    bench.account_when_all_arrived().assert_nothing_lost_or_altered()
    accepted: list[tuple[int, int]] = [place for member in members for place in member.accepted]
    assert len(accepted) == len(set(accepted)), "accepted twice"
    bench.until_all_committed()
    bench.close_members()


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_record_that_kills_its_share_members(bench: ShareBench) -> None:
    """One of thousands, among others in its batch: only that one is written to the dead-letter topic."""
    bench.start_mesh(share=EARLIEST, dead_letters={"topic": "{topic}.dead", "create": True, "limit": 5})
    poison = None
    bench.feed(2_000)
    poison = sorted(bench.stored())[700]
    spawned: list[ShareMember] = []

    def until_it_is_given_up() -> bool:
        if not spawned or spawned[-1].process.exit_code is not None:
            spawned.append(bench.share(f"doomed-{len(spawned)}", dies_of=poison))
        stored = bench.stored().keys() - {poison}
        return stored <= {delivery.id for delivery in bench.deliveries()} and len(spawned) > 1

    eventually("everything else is delivered", until_it_is_given_up, timeout=120, interval=0.2)
    bench.until_all_committed(timeout=90)
    assert len(spawned) >= 5
    spawned[-1].assert_running()

"""Real clients that produce a feed or consume a topic, and the records that the cluster itself has of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.clients.bench import Client, ScriptedMember, command_of, kcat_arguments, producer_of
from tests.clients.producing import Feed
from tests.clients.script import Script
from tests.integration.kafka import KafkaCluster
from tests.integration.members import KcatMember, Member
from tests.integration.processes import ChildProcess
from tests.integration.records import Stored, View
from tests.relay.cluster import NODES, SeveralBrokers

COUNT = 500
"""Records of a test."""
PRODUCERS = [client for client in Client if client is not Client.KCAT]


def produced(client: Client, feed: Feed, folder: Path) -> dict[int, tuple[int, int]]:
    """Partition and offset of the acknowledged records, by number; -1 where the client does not report them."""
    output = folder / "producer.out"
    program = ChildProcess([*producer_of(client), feed.to_json()], log=folder / "producer.log", stdout=output)
    code = program.wait(60)
    assert code == 0, f"the producer ended with {code}; its log ends:\n{program.log_tail()}"
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    return {each["number"]: (each["partition"], each["offset"]) for each in lines}


def started(client: Client, script: Script, folder: Path) -> Member:
    """A running member of a group."""
    if client is Client.KCAT:
        return KcatMember("member", kcat_arguments(script), folder)
    view = View.WITHOUT_NULL if client is Client.SEGMENTIO else View.WHOLE
    return ScriptedMember("member", [*command_of(client), script.to_json()], folder, view)


def committed(cluster: KafkaCluster, script: Script) -> dict[int, int]:
    """The group's committed offsets at the cluster itself, by partition."""
    assert script.group is not None
    return {partition: offset for (_, partition), offset in cluster.committed(script.group).items()}


def ordered(member: Member) -> dict[int, list[tuple[int, str]]]:
    """Offsets and ids by partition, in the order of arrival."""
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for each in member.deliveries:
        found[each.partition].append((each.offset, each.id))
    return found


def in_partitions(stored: Sequence[Stored]) -> dict[int, list[tuple[int, str]]]:
    """The same for the stored records."""
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for each in sorted(stored, key=lambda each: each.offset):
        found[each.partition].append((each.offset, each.record.id))
    return found


def number_of(stored: Stored) -> int:
    """The number of a record of a feed."""
    return int(stored.record.id.rpartition("-")[2])


def member_of(front: str, topic: str, client: Client) -> Script:
    """The script of a member of a new group. front: its bootstrap servers."""
    return Script(
        bootstrap_servers=front,
        client_id="member",
        group=f"{topic}-group",
        topic=topic,
        # With a named assignor it waits until it knows the topic; otherwise a leader of its group may assign nothing
        # for minutes.
        assignor="range" if client is Client.KAFKA_PYTHON else "",
    )


def created(cluster: SeveralBrokers, test: str) -> str:
    """A topic named after a test: one partition for each node to lead; every node has a replica."""
    name = "".join(each if each.isalnum() else "-" for each in test).strip("-")
    cluster.create_topic(name, len(NODES), places=[[*NODES[at:], *NODES[:at]] for at in range(len(NODES))])
    return name

"""Leases of a mesh that is killed with -9, on librdkafka's mock clusters."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from mesh.demo.processes.children import Child, Children
from mesh.demo.processes.endpoint import MeshEndpoint
from tests.integration.processes import eventually

TOPIC, JOURNAL, GROUP, RECORDS = "orders", "journal", "leasing", 1_000
Place = tuple[str, int, int]


class Bed:
    """Two clusters with so many records each, and a mesh in front, which keeps a journal. addresses: bootstrap servers
    by cluster."""

    def __init__(self, folder: Path, children: Children) -> None:
        self._folder = folder
        self._children = children
        self._endpoint = MeshEndpoint.on_free_ports()
        self._file = folder / "kafka-mesh.yaml"
        self.addresses = {name: self._cluster(name) for name in ("eu", "us")}
        self.feed(RECORDS)
        configuration = yaml.safe_load(self._endpoint.configuration(TOPIC, self.addresses, JOURNAL))
        configuration["virtual_clusters"][0]["target"]["pool"]["start"] = "earliest"
        self._file.write_text(yaml.safe_dump(configuration))
        self.mesh = self.start()

    def start(self) -> Child:
        mesh = self._children.start("kafka-mesh", "mesh.cli", "run", self._file)
        eventually("/readyz", self._endpoint.is_ready, timeout=60)
        return mesh

    def restart(self) -> None:
        """Restarts the mesh after kill -9."""
        self.mesh.kill()
        self.mesh = self.start()

    @property
    def admin_url(self) -> str:
        return self._endpoint.admin_url

    def lag(self, group: str = GROUP) -> int | None:
        """The lag; None while it is unknown."""
        return self._endpoint.lag(group, TOPIC)

    def feed(self, count: int) -> None:
        """Feeds this many records for each cluster."""
        for address in self.addresses.values():
            producer = Producer({"bootstrap.servers": address, "log_level": 0})
            for number in range(count):
                producer.produce(TOPIC, b"%d" % number, key=b"%d" % number)
            producer.flush()

    def ask(self, path: str, holder: str = "job", **body: object) -> Any:
        who = {"virtual_cluster": "demo", "group": GROUP} | ({"holder": holder} if holder else {})
        content = json.dumps(who | body).encode()
        with urllib.request.urlopen(self._endpoint.admin_url + path, content, timeout=60) as answer:
            return json.load(answer)

    def lease(self, holder: str = "job", **body: object) -> Any:
        """Leases all available records, as soon as there are some."""
        return eventually(
            "there is something to lease",
            lambda: (lease := self.ask("/leases", holder, topics=[TOPIC], wait=20.0, **body))["ranges"] and lease,
            timeout=90,
        )

    def _cluster(self, name: str) -> str:
        file = self._folder / f"{name}.address"
        self._children.start(name, "mesh.demo.processes.clusters", TOPIC, file, JOURNAL)
        eventually(f"cluster {name}", file.exists)
        return file.read_text()


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with Children(tmp_path) as children:
        yield Bed(tmp_path, children)


def places(ranges: list[dict[str, Any]]) -> Counter[Place]:
    return Counter(
        (each["cluster"], each["partition"], offset)
        for each in ranges
        for offset in range(each["first"], each["last"] + 1)
    )


@pytest.mark.long
def test_a_killed_mesh_still_holds_what_it_leased_and_knows_what_was_acknowledged(bed: Bed) -> None:
    mine = bed.lease(max_records=800)
    bed.ask(f"/leases/{mine['lease']}/acknowledge", ranges=mine["ranges"][:2])
    bed.restart()
    others = bed.lease("other")
    assert not places(mine["ranges"]) & places(others["ranges"])
    assert len(places(mine["ranges"]) | places(others["ranges"])) == 2 * RECORDS

    claimed = bed.ask(f"/leases/{mine['lease']}/claim", ranges=mine["ranges"])
    assert claimed == {"done": mine["ranges"], "lost": [], "absent": []}
    bed.restart()
    for lease, holder in ((mine, "job"), (others, "other")):
        bed.ask(f"/leases/{lease['lease']}/claim", holder, ranges=lease["ranges"], wait=30.0)
        done = bed.ask(f"/leases/{lease['lease']}/acknowledge", holder, ranges=lease["ranges"])
        assert places(done["done"]) == places(lease["ranges"])
    bed.restart()
    backlog = bed.ask("/leases/backlog", "", topics=[TOPIC], wait=30.0)["partitions"]
    assert [(each["available"], each["leased"], each["lag"]) for each in backlog] == [(0, 0, 0)] * 8

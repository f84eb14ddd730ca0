"""kafka-mesh with a union whose topics operators may move, by their commands."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import KAFKA_MESH
from tests.integration.processes import completed, eventually
from tests.router.union_mesh import NODES, UnionMesh

ALL_AT_EU: Mapping[str, Any] = {
    "topics": [{"prefix": "us.", "route": "us", "strip": True}, {"prefix": "", "route": "eu"}],
    "groups": [{"pattern": "us.*", "route": "us"}],
    "default": "eu",
}


class MoveMesh(UnionMesh):
    """One virtual cluster, a union of eu and us, with a store at us."""

    def __init__(
        self,
        folder: Path,
        eu: KafkaCluster,
        us: KafkaCluster,
        name: str,
        hold: str = "10s",
        config: Mapping[str, Any] = ALL_AT_EU,
        listener: Mapping[str, Any] = MappingProxyType({}),
        more: Mapping[str, Any] = MappingProxyType({}),
        nodes_of_us: Sequence[int] = tuple(range(NODES)),
    ) -> None:
        """config: of its router. listener: further keys of its virtual cluster. more: further keys of the
        configuration."""
        self._more = {"store": {"cluster": "us", "topic": f"store-of-{name}", "create": True}, **more}
        super().__init__(folder, eu, us, config, name, {"moves": {"hold": hold}, **listener}, nodes_of_us)

    def configure(self, configuration: Mapping[str, object]) -> None:
        super().configure({**configuration, **self._more})

    def move(self, *words: str) -> str:
        """The output of `kafka-mesh move`. Raises AssertionError with its message if it refuses."""
        done = self.tried(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tried(self, *words: str) -> subprocess.CompletedProcess[str]:
        return completed([KAFKA_MESH, "move", words[0], self.file, *words[1:]])

    def begin(self, topic: str, **asked: str) -> None:
        """Begins a move over HTTP, which takes less time."""
        url = f"{self.admin_url}/moves?{urlencode({'topic': topic, **asked})}"
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60) as response:
            assert response.status == 200

    def moves(self) -> dict[str, dict[str, Any]]:
        """The answer of /moves, by topic."""
        with urllib.request.urlopen(f"{self.admin_url}/moves", timeout=5) as response:
            return {each["topic"]: each for each in json.load(response)["moves"]}

    def until_at(self, topic: str, path: str) -> dict[str, Any]:
        """Returns when a topic was moved there, with the answer of /moves."""

        def is_there() -> bool:
            found = self.moves()[topic]
            assert found["state"] != "given up", found
            return bool(found["at"] == path and found["state"] == "moved")

        eventually(f"{topic} is at {path}", is_there, timeout=90)
        return self.moves()[topic]

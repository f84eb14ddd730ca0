"""A holder of leases outside of Spark: HTTP, and the answers of its mesh."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from tests.integration.mesh_process import Mesh
from tests.integration.processes import eventually


class Holder:
    """A holder of leases of one topic in one group, at one mesh."""

    def __init__(self, mesh: Mesh, group: str, topic: str, name: str = "job") -> None:
        self._mesh = mesh
        self._who = {"virtual_cluster": "tested", "group": group}
        self._topic = topic
        self._name = name

    def ask(self, path: str, mesh: Mesh | None = None, **body: object) -> Any:
        """The mesh's answer; raises urllib.error.HTTPError if it refuses."""
        holder = {} if path == "/leases/backlog" else {"holder": self._name}
        content = json.dumps(self._who | holder | body).encode()
        with urllib.request.urlopen((mesh or self._mesh).admin_url + path, content, timeout=60) as answer:
            return json.load(answer)

    def lease(self, offsets: int) -> Any:
        """Leases all offsets, once there are this many."""

        def there_are() -> bool:
            asked = self.ask("/leases/backlog", topics=[self._topic], wait=10.0)
            return bool(sum(each["available"] for each in asked["partitions"]) == offsets)

        eventually(f"{offsets} offsets can be leased", there_are, timeout=60)
        return self.ask("/leases", topics=[self._topic], wait=10.0, max_bytes=None)

    def settled(self, verb: str, lease: Any, mesh: Mesh | None = None) -> Any:
        """The answer about a lease when none of its ranges is absent any more."""

        def answer() -> Any:
            said = self.ask(f"/leases/{lease['lease']}/{verb}", mesh, ranges=lease["ranges"])
            return said if not said["absent"] else None

        return eventually(f"{verb} of what is absent at first", answer, timeout=60)


def spans(ranges: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """(partition, first, last) of each range."""
    return sorted((each["partition"], each["first"], each["last"]) for each in ranges)

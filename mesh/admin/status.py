"""The state of every virtual cluster as JSON, for `/status` and `kafka-mesh status`. docs/tools.md explains the
keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mesh.listener.target import Target


def status_of(targets: Iterable[Target]) -> dict[str, Any]:
    return {
        "virtual_clusters": [
            {"name": target.name, "connections": len(target.listener.connections), **target.status()}
            for target in targets
        ]
    }

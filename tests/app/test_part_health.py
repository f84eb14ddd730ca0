"""Operators see each part with another width than declared, once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from mesh.app.part_health import PartHealth
from mesh.routing.concatenated import concatenate
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.leaves import Leaves
from mesh.telemetry.upstream_health import UpstreamHealth

LEAF = LeafNumber(1)
(PART,) = concatenate("joined", "us", [(LEAF, "joined-us", 3)]).parts


def reasons(health: UpstreamHealth) -> list[object]:
    return [each["reason"] for each in health.described()]


def test_it_lasts_until_the_width_is_that_which_is_declared() -> None:
    health = UpstreamHealth(("us",))
    leaves = cast(Leaves, SimpleNamespace(by_number={LEAF: SimpleNamespace(nodes=SimpleNamespace(cluster="us"))}))
    of_parts: Any = PartHealth(health, leaves, "all")
    of_parts.begin(PART, "too few")
    of_parts.begin(PART, "too few")
    assert reasons(health) == ["too few"]
    of_parts.end(PART)
    of_parts.begin(PART, "too many")
    assert reasons(health) == ["too many"], "also shortly after it was over"

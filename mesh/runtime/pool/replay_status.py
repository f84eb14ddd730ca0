"""The replays of a pool as JSON, for `/status`, `/replays` and `kafka-mesh replay`. docs/replay.md explains the
keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from mesh.pool.pool import Pool
from mesh.pool.replay.service import ReplayedPartition


def replays_of(pool: Pool) -> list[dict[str, Any]]:
    """Returns the unfinished replays, the oldest first."""
    partitions = sorted(pool.replaying.partitions(), key=lambda each: (each.replay.begun, each.replay.id))
    return [replay_shown(list(parts)) for _, parts in groupby(partitions, lambda each: each.replay.id)]


def replay_shown(partitions: Sequence[ReplayedPartition]) -> dict[str, Any]:
    """Returns one replay as JSON, as far as this process carries it out. partitions: the partitions of the replay in
    this process."""
    replay = partitions[0].replay
    total, left = sum(each.total for each in partitions), sum(each.left for each in partitions)
    return {
        "replay": replay.id,
        "state": "cancelled" if any(each.is_cancelled for each in partitions) else "running",
        "begun": replay.begun,
        "rate": replay.rate,
        "key": _text(replay.filter.key),
        "headers": {name: _text(value) for name, value in replay.filter.headers},
        "offsets": total,
        "left": left,
        "delivered_and_not_acknowledged": sum(each.out for each in partitions),
        "partitions": [
            {
                "partition": str(each.source),
                "first": each.span.first,
                "last": each.span.last,
                "offsets": each.total,
                "left": each.left,
            }
            for each in sorted(partitions, key=lambda each: str(each.source))
        ],
    }


def _text(value: bytes | None) -> str | None:
    return value.decode(errors="replace") if value is not None else None

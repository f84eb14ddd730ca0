"""Checks before a move. Each reason for a refusal has a name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

MOST_FILLED: Final = 100_000_000
"""The most offsets below the first records, over all partitions. The copy fills these offsets with empty records."""
_KEPT: Final = (
    "cleanup.policy",
    "compression.type",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "retention.bytes",
    "retention.ms",
)
"""Configurations that the target gets even if the source has them from its cluster's defaults."""
_OF_CLUSTER: Final = ("confluent.", "follower.replication.", "leader.replication.", "remote.")
"""Prefixes of configurations that are valid in one cluster only."""

Configs = Mapping[str, tuple[str | None, bool]]
"""The values of configurations, each with a flag that says whether it was set on the topic itself."""


class NotMoved(Exception):
    """Raised for a move that cannot begin. kind: a name of the reason, for operators."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind


def check_configs(configs: Configs) -> None:
    """Checks the configurations of the source topic. Raises NotMoved."""
    if "compact" in (configs.get("cleanup.policy", ("delete", False))[0] or ""):
        raise NotMoved("compacted", "a compacted topic has offsets without records, which a copy cannot have")
    if configs.get("message.timestamp.type", ("CreateTime", False))[0] == "LogAppendTime":
        raise NotMoved("log_append_time", "the timestamps are those of the cluster, and a copy would have new ones")


def check_groups(consuming: Mapping[str, str]) -> None:
    """Checks the groups that have offsets of the topic. consuming: for each group its type if such groups cannot be
    moved, otherwise "". Raises NotMoved."""
    for group, kind in sorted(consuming.items()):
        if kind:
            raise NotMoved(f"{kind}_group", f"{group} consumes the topic, and a {kind} group cannot be led elsewhere")


def check_transactions(open_transactions: Collection[int]) -> None:
    """Checks that no transaction is open. open_transactions: the producer ids of open transactions. Raises NotMoved."""
    if open_transactions:
        ids = ", ".join(map(str, sorted(open_transactions)))
        raise NotMoved("transactions", f"transactions are under way: producer ids {ids}")


def check_starts(starts: Sequence[int]) -> None:
    """Checks the number of offsets below the first records. starts: the first offset of each partition. Raises
    NotMoved."""
    if sum(starts) > MOST_FILLED:
        raise NotMoved("starts_late", f"{sum(starts)} offsets are in front of the first records, {MOST_FILLED} may be")


def configs_of_target(configs: Configs) -> dict[str, str]:
    """Returns the configurations with which the target topic is created."""
    return {
        name: value
        for name, (value, is_own) in configs.items()
        if value is not None and (is_own or name in _KEPT) and not name.startswith(_OF_CLUSTER)
    }

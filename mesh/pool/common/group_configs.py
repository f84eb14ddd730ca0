"""The configurations of a share group that clients can set over the protocol, in Kafka's terms: names, types, bounds,
documentation.

They take precedence over the configuration of the mesh, which takes precedence over Kafka's defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from mesh.pool.common.ids import GroupId
from mesh.pool.common.settings import ByDuration, ShareSettings, ShareStart

Overrides: TypeAlias = Mapping[str, str]
"""The configurations of a group that clients have set: values by Kafka's names."""
Changes: TypeAlias = Mapping[str, str | None]
"""Changes of a group's overrides; None removes one."""


class KeptShareGroups(Protocol):
    """The share groups in the store, with or without a pool."""

    @property
    def is_loading(self) -> bool:
        """True if the store has not been read completely."""

    def overrides(self, group: GroupId) -> Overrides:
        """Returns the configurations of a group that clients have set; nothing while the store is loading."""

    def configured(self) -> AbstractSet[GroupId]:
        """Returns the groups with overrides."""

    def groups(self) -> AbstractSet[GroupId]:
        """Returns the groups that have, or had, share members."""

    def knows(self, group: GroupId) -> bool:
        """Returns whether a group has, or had, share members. Called at each heartbeat."""


class NothingKept:
    """A `KeptShareGroups` for a mesh without a store."""

    is_loading = False

    def overrides(self, group: GroupId) -> Overrides:
        return {}

    def configured(self) -> AbstractSet[GroupId]:
        return frozenset()

    def groups(self) -> AbstractSet[GroupId]:
        return frozenset()

    def knows(self, group: GroupId) -> bool:
        return False


NOTHING_KEPT: Final = NothingKept()


class ConfigType(IntEnum):
    """Kafka's types of configurations, as in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3


class InvalidGroupConfig(ValueError):
    """Raised for a value that is not allowed. The message has the name, the value, and the allowed values."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """A configuration that groups can have. default: Kafka's default. text: returns the current value in settings.
    apply: returns settings with another value."""

    name: str
    type: ConfigType
    default: str
    documentation: str
    text: Callable[[ShareSettings], str]
    apply: Callable[[ShareSettings, str], ShareSettings]


def _number(name: str, value: str, lowest: int, highest: int) -> int:
    try:
        number = int(value)
    except ValueError:
        number = lowest - 1
    if not lowest <= number <= highest:
        raise InvalidGroupConfig(f"{name}: {value!r} is not allowed: a whole number from {lowest} to {highest}")
    return number


def _lock(settings: ShareSettings, value: str) -> ShareSettings:
    lowest, highest = round(settings.shortest_lock * 1000), round(settings.longest_lock * 1000)
    return replace(settings, lock=_number("share.record.lock.duration.ms", value, lowest, highest) / 1000)


def _deliveries(settings: ShareSettings, value: str) -> ShareSettings:
    return replace(settings, delivery_limit=_number("share.delivery.count.limit", value, 2, 10))


def _locks(settings: ShareSettings, value: str) -> ShareSettings:
    return replace(settings, most_locks=_number("share.partition.max.record.locks", value, 100, 100_000))


def _renew(settings: ShareSettings, value: str) -> ShareSettings:
    if value.lower() not in ("true", "false"):
        raise InvalidGroupConfig(f"share.renew.acknowledge.enable: {value!r} is not allowed: true or false")
    return replace(settings, may_renew=value.lower() == "true")


def _start(settings: ShareSettings, value: str) -> ShareSettings:
    if value in (ShareStart.EARLIEST.value, ShareStart.LATEST.value):
        return replace(settings, start=ShareStart(value))
    try:
        return replace(settings, start=ByDuration.parse(value))
    except ValueError as problem:
        raise InvalidGroupConfig(f"share.auto.offset.reset: {problem}") from None


def _isolation(settings: ShareSettings, value: str) -> ShareSettings:
    match value.lower():
        case "read_committed" | "read_uncommitted" as isolation:
            return replace(settings, isolation=isolation)
        case _:
            message = f"share.isolation.level: {value!r} is not allowed: read_committed or read_uncommitted"
            raise InvalidGroupConfig(message)


GROUP_CONFIGS: Final[Mapping[str, GroupConfig]] = MappingProxyType(
    {
        each.name: each
        for each in (
            GroupConfig(
                "share.auto.offset.reset",
                ConfigType.STRING,
                "latest",
                "Where a group without commits begins: earliest, latest or by_duration:PnDTnHnMnS.",
                lambda settings: settings.start.value,
                _start,
            ),
            GroupConfig(
                "share.delivery.count.limit",
                ConfigType.INT,
                "5",
                "How often the mesh delivers a record before it gives it up.",
                lambda settings: str(settings.delivery_limit),
                _deliveries,
            ),
            GroupConfig(
                "share.isolation.level",
                ConfigType.STRING,
                "read_uncommitted",
                "Which records of transactions are read; takes effect when the mesh begins to serve the group again.",
                lambda settings: settings.isolation,
                _isolation,
            ),
            GroupConfig(
                "share.partition.max.record.locks",
                ConfigType.INT,
                "2000",
                "Records of one partition that are acquired at the same time.",
                lambda settings: str(settings.most_locks),
                _locks,
            ),
            GroupConfig(
                "share.record.lock.duration.ms",
                ConfigType.INT,
                "30000",
                "How long a member holds acquired records.",
                lambda settings: str(round(settings.lock * 1000)),
                _lock,
            ),
            GroupConfig(
                "share.renew.acknowledge.enable",
                ConfigType.BOOLEAN,
                "true",
                "Whether members may renew their locks.",
                lambda settings: str(settings.may_renew).lower(),
                _renew,
            ),
        )
    }
)


def changed(overrides: Overrides, changes: Changes) -> dict[str, str]:
    """Returns the overrides after these changes, which have been checked. None removes a value."""
    after = {**overrides, **changes}
    return {name: value for name, value in after.items() if value is not None}


def check(changes: Changes, settings: ShareSettings) -> None:
    """Checks changes of a group's overrides. settings: the defaults. Raises InvalidGroupConfig."""
    for name, value in changes.items():
        if name not in GROUP_CONFIGS:
            raise InvalidGroupConfig(f"{name} is not known: {', '.join(GROUP_CONFIGS)}")
        if value is not None:
            GROUP_CONFIGS[name].apply(settings, value)


def settings_with(settings: ShareSettings, overrides: Overrides) -> ShareSettings:
    """Returns the settings of a group with its overrides. Values are left out if they are no longer allowed, or come
    from a later version of the mesh."""
    for name, value in overrides.items():
        config = GROUP_CONFIGS.get(name)
        if config is not None:
            try:
                settings = config.apply(settings, value)
            except InvalidGroupConfig:
                continue
    return settings

"""What can be configured of a share group over the protocol, in Kafka's words: names, types, bounds, meaning.

What is set stands before what the configuration of the mesh says, and that before Kafka's defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from mesh.pool.common.settings import ShareSettings, ShareStart

Overrides: TypeAlias = Mapping[str, str]
"""What is set of a group: values by the names of Kafka."""


class ConfigType(IntEnum):
    """Kafka's types of configs, as DescribeConfigs says them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3


class InvalidGroupConfig(ValueError):
    """The message says the key, the value, and what is allowed."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """One of them. default: Kafka's. text: the value that settings have. apply: settings with another value."""

    name: str
    type: ConfigType
    default: str
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
    return replace(settings, lock=_number("share.record.lock.duration.ms", value, 15_000, 60_000) / 1000)


def _deliveries(settings: ShareSettings, value: str) -> ShareSettings:
    return replace(settings, delivery_limit=_number("share.delivery.count.limit", value, 2, 10))


def _locks(settings: ShareSettings, value: str) -> ShareSettings:
    return replace(settings, most_locks=_number("share.partition.max.record.locks", value, 100, 100_000))


def _renew(settings: ShareSettings, value: str) -> ShareSettings:
    if value.lower() not in ("true", "false"):
        raise InvalidGroupConfig(f"share.renew.acknowledge.enable: {value!r} is not allowed: true or false")
    return replace(settings, may_renew=value.lower() == "true")


def _start(settings: ShareSettings, value: str) -> ShareSettings:
    if value not in (ShareStart.EARLIEST.value, ShareStart.LATEST.value):
        message = f"share.auto.offset.reset: {value!r} is not allowed: earliest or latest (by_duration is not served)"
        raise InvalidGroupConfig(message)
    return replace(settings, start=ShareStart(value))


GROUP_CONFIGS: Final[Mapping[str, GroupConfig]] = MappingProxyType(
    {
        each.name: each
        for each in (
            GroupConfig(
                "share.auto.offset.reset",
                ConfigType.STRING,
                "latest",
                lambda settings: settings.start.value,
                _start,
            ),
            GroupConfig(
                "share.delivery.count.limit",
                ConfigType.INT,
                "5",
                lambda settings: str(settings.delivery_limit),
                _deliveries,
            ),
            GroupConfig(
                "share.partition.max.record.locks",
                ConfigType.INT,
                "2000",
                lambda settings: str(settings.most_locks),
                _locks,
            ),
            GroupConfig(
                "share.record.lock.duration.ms",
                ConfigType.INT,
                "30000",
                lambda settings: str(round(settings.lock * 1000)),
                _lock,
            ),
            GroupConfig(
                "share.renew.acknowledge.enable",
                ConfigType.BOOLEAN,
                "true",
                lambda settings: str(settings.may_renew).lower(),
                _renew,
            ),
        )
    }
)


def changed(overrides: Overrides, changes: Mapping[str, str | None]) -> dict[str, str]:
    """What is set after these changes; None takes a value away. Raises InvalidGroupConfig, and nothing is changed."""
    found = dict(overrides)
    for name, value in changes.items():
        if name not in GROUP_CONFIGS:
            raise InvalidGroupConfig(f"{name} is not known: {', '.join(GROUP_CONFIGS)}")
        if value is None:
            found.pop(name, None)
        else:
            GROUP_CONFIGS[name].apply(ShareSettings(), value)
            found[name] = value
    return found


def settings_with(settings: ShareSettings, overrides: Overrides) -> ShareSettings:
    """What a group has. Values that are not allowed any more, or of a later version of the mesh, are left out."""
    for name, value in overrides.items():
        config = GROUP_CONFIGS.get(name)
        if config is not None:
            try:
                settings = config.apply(settings, value)
            except InvalidGroupConfig:
                continue
    return settings

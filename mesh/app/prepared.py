"""The resources of virtual clusters that are prepared before a start or a reload changes anything."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mesh.app.target_parts import TargetParts
from mesh.config.interceptors import InterceptorConfig, InterceptorWorkersConfig
from mesh.config.mistakes import ConfigurationError, Mistake
from mesh.config.model import Config
from mesh.config.routers import RouterConfig
from mesh.config.values import Address
from mesh.listener.bound_address import BoundAddress
from mesh.listener.listener_setup import ListenerSetup


@dataclass(frozen=True, slots=True)
class Prepared:
    """The resources of a configuration that may be unavailable, by the names of its virtual clusters: files that were
    read, addresses that were free, and parts that code of users made."""

    setups: Mapping[str, ListenerSetup]
    bound: Mapping[Address, BoundAddress]
    parts: Mapping[str, TargetParts]
    routers: Sequence[RouterConfig]
    interceptors: Sequence[InterceptorConfig]
    interceptor_workers: InterceptorWorkersConfig


async def close_all(parts: Mapping[str, TargetParts]) -> None:
    """Closes the parts that no target has taken."""
    for each in parts.values():
        await each.close()


def set_up_listeners(config: Config, names: Collection[str]) -> dict[str, ListenerSetup]:
    """Sets up the listeners of the virtual clusters with these names. It reads files and derives keys, so call it in a
    thread. Raises ConfigurationError with every mistake if files are unusable."""
    setups: dict[str, ListenerSetup] = {}
    problems: list[Mistake] = []
    for index, configured in enumerate(config.virtual_clusters):
        if configured.name not in names:
            continue
        try:
            setups[configured.name] = ListenerSetup(configured, ("virtual_clusters", index))
        except ConfigurationError as problem:
            problems += problem.mistakes
    if problems:
        raise ConfigurationError(problems)
    return setups

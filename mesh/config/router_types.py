"""The types of routers: those that ship, and those of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeAlias

from mesh.routing.routers import SHIPPED
from mesh.routing.spi import ENTRY_POINTS, RouterFactory

AnyFactory: TypeAlias = RouterFactory[Any, Any]


class UnknownRouterType(Exception):
    """Raised for a router type that does not exist, or that has no valid factory. The message has the allowed types."""


def factory_of(type: str) -> AnyFactory:
    """Returns the factory of routers of this type. Raises UnknownRouterType."""
    if type in SHIPPED:
        return SHIPPED[type]()
    found = _found()
    if type not in found:
        others = ", ".join(sorted(found)) or "none are installed"
        raise UnknownRouterType(f"{', '.join(sorted(SHIPPED))}, or an entry point of {ENTRY_POINTS}: {others}")
    return _made(found[type])


def _found() -> Mapping[str, EntryPoint]:
    return {each.name: each for each in entry_points(group=ENTRY_POINTS)}


@cache
def _made(entry_point: EntryPoint) -> AnyFactory:
    try:
        factory = entry_point.load()()
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
        raise UnknownRouterType(f"a router that can be loaded; {entry_point.value} cannot: {text}") from problem
    if not isinstance(factory, RouterFactory):
        raise UnknownRouterType(f"the type of a router; {entry_point.value} is no RouterFactory")
    return factory

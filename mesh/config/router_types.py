"""The types of routers that there are: those that ship, and those of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeAlias

from mesh.routing.routers import SHIPPED
from mesh.routing.spi import ENTRY_POINTS, RouterFactory

AnyFactory: TypeAlias = RouterFactory[Any, Any]


class UnknownType(Exception):
    """No router is of this type, or what should be its factory is none. The message is what is allowed."""


def factory_of(type: str) -> AnyFactory:
    """What makes routers of this type. Raises UnknownType."""
    if type in SHIPPED:
        return SHIPPED[type]()
    found = _found()
    if type not in found:
        others = ", ".join(sorted(found)) or "none are installed"
        raise UnknownType(f"{', '.join(sorted(SHIPPED))}, or an entry point of {ENTRY_POINTS}: {others}")
    return _made(found[type])


def _found() -> Mapping[str, EntryPoint]:
    return {each.name: each for each in entry_points(group=ENTRY_POINTS)}


@cache
def _made(entry_point: EntryPoint) -> AnyFactory:
    try:
        factory = entry_point.load()()
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
        raise UnknownType(f"a router that can be loaded; {entry_point.value} cannot: {text}") from problem
    if not isinstance(factory, RouterFactory):
        raise UnknownType(f"the type of a router; {entry_point.value} is no RouterFactory")
    return factory

"""The types of interceptors: those that ship, and those of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeAlias

from mesh.interceptors.shipped import SHIPPED
from mesh.interceptors.spi import ENTRY_POINTS, Interceptor

InterceptorClass: TypeAlias = type[Interceptor]


class UnknownInterceptorType(Exception):
    """Raised for an interceptor type that does not exist, or is not an interceptor. The message has the allowed
    types."""


def class_of(type: str) -> InterceptorClass:
    """Returns the class of a type. Raises UnknownInterceptorType."""
    if type in SHIPPED:
        return SHIPPED[type]
    found = _found()
    if type not in found:
        others = ", ".join(sorted(found)) or "none are installed"
        raise UnknownInterceptorType(f"{', '.join(sorted(SHIPPED))}, or an entry point of {ENTRY_POINTS}: {others}")
    return _loaded(found[type])


def _found() -> Mapping[str, EntryPoint]:
    return {each.name: each for each in entry_points(group=ENTRY_POINTS)}


@cache
def _loaded(entry_point: EntryPoint) -> InterceptorClass:
    try:
        loaded = entry_point.load()
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
        raise UnknownInterceptorType(
            f"an interceptor that can be loaded; {entry_point.value} cannot: {text}"
        ) from problem
    if not (isinstance(loaded, type) and issubclass(loaded, Interceptor)):
        raise UnknownInterceptorType(
            f"the type of an interceptor; {entry_point.value} is no class that extends Interceptor"
        )
    return loaded

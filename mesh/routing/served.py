"""The versions of APIs that can be served through several routers and the runtime."""

from __future__ import annotations

from collections.abc import Iterable

from mesh.routing.spi import Served


def common(one: Served, other: Served) -> Served:
    """Returns the APIs that both serve, with the versions that both serve."""
    ranges = {
        key: (max(low, other[key][0]), min(high, other[key][1])) for key, (low, high) in one.items() if key in other
    }
    return {key: (low, high) for key, (low, high) in ranges.items() if low <= high}


def common_of(all_served: Iterable[Served | None]) -> Served | None:
    """Returns the APIs and versions that all serve. None stands for all versions."""
    found: Served | None = None
    for served in all_served:
        if served is not None:
            found = served if found is None else common(found, served)
    return found


def limited(served: Served, limit: Served | None) -> Served:
    """Returns the served versions, within a limit if there is one."""
    return served if limit is None else common(served, limit)

"""Which APIs are served where several have a say: routers on the way, and the runtime."""

from __future__ import annotations

from collections.abc import Iterable

from mesh.routing.spi import Served


def common(one: Served, other: Served) -> Served:
    """What is in both: APIs, and of each the versions."""
    ranges = {
        key: (max(low, other[key][0]), min(high, other[key][1])) for key, (low, high) in one.items() if key in other
    }
    return {key: (low, high) for key, (low, high) in ranges.items() if low <= high}


def common_of(all_served: Iterable[Served | None]) -> Served | None:
    """The same of several; None stands for everything."""
    found: Served | None = None
    for served in all_served:
        if served is not None:
            found = served if found is None else common(found, served)
    return found


def limited(served: Served, limit: Served | None) -> Served:
    """What is served of these, where a limit is given."""
    return served if limit is None else common(served, limit)

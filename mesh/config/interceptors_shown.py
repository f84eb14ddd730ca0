"""Which interceptors of a configuration run where, for people."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.config.interceptor_checks import is_inline
from mesh.config.model import Config


def interceptors_of(config: Config) -> Iterator[str]:
    """A line for each interceptor of each virtual cluster."""
    by_name = {each.name: each for each in config.interceptors}
    for virtual_cluster in config.virtual_clusters:
        for name in virtual_cluster.interceptors:
            each = by_name[name]
            where = "inline" if is_inline(each) else f"in {config.interceptor_workers.count} workers"
            on, topics = " and ".join(side.value for side in each.on), ", ".join(each.topics)
            yield f"virtual cluster {virtual_cluster.name}: {name} ({each.type}) runs {where}, on {on}, topics {topics}"

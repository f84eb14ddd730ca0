"""Three brokers in one cluster, and kafka-mesh with an address for each of them, or with one for all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from benchmarks.bed import Bed, Target
from benchmarks.machine import prefer
from tests.integration.jars import kafka_jars
from tests.integration.processes import free_ports
from tests.relay.cluster import NODES, SeveralBrokers

HELD: Final = "mesh, one node"
"""The target with one address for all."""


class SeveralBed(Bed):
    """Topics are on one broker each, so that replication takes no part of the machine."""

    several: SeveralBrokers

    def _begin(self) -> None:
        self.several = SeveralBrokers("several", kafka_jars(), self.folder / "several", replicas=1, is_measured=True)
        self.broker = self.several
        for pid in self.several.pids:
            prefer(pid)
        self.direct = Target("direct", self.several.every_address, self.several.pids)

    @contextmanager
    def shown(self) -> Iterator[list[Target]]:
        """The targets that clients use directly, with an address for each broker, and with one for all."""
        ports = free_ports(len(NODES))
        each = {"ports": f"{ports[0]}-{ports[-1]}", "ids": list(NODES)}
        relay: dict[str, object] = {"relay": {"cluster": "bench"}}
        with ExitStack() as stack:
            dedicated = stack.enter_context(self._relaying("mesh, relay", relay, shown=each))
            yield [self.direct, dedicated, stack.enter_context(self._relaying(HELD, relay, shown="one"))]

    def close(self) -> None:
        super().close()
        self.several.end()
        shutil.rmtree(self.folder / "several", ignore_errors=True)


def several_beside(bed: Bed) -> SeveralBed:
    """The one beside a bed, which begins when it is first asked for."""
    found = bed.further.get("several")
    if found is None:
        found = bed.further["several"] = SeveralBed(bed.folder, bed.scale)
    assert isinstance(found, SeveralBed), "it was made here"
    return found

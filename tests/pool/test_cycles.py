"""Records and their buffers are free when nothing refers to them: the core makes no reference cycles with them."""

from __future__ import annotations

import gc

from benchmarks.core import Core
from mesh.pool.common.ids import GroupId

GROUP = GroupId("shop")


def test_nothing_is_left_for_the_collector() -> None:
    core = Core(partitions=6)
    (consumer,) = core.join(GROUP, 1)
    core.fetch(consumer)
    core.assign(GROUP)

    def work(steps: int) -> None:
        for step in range(steps):
            core.receive(GROUP, step % 6, batches=3)
            if core.idle:
                core.idle.clear()
                core.fetch(consumer)
            if step % 50 == 49:
                for partition in range(6):
                    core.commit(consumer, partition)

    work(100)
    gc.collect()
    gc.disable()
    try:
        work(300)
        assert gc.collect() == 0
    finally:
        gc.enable()

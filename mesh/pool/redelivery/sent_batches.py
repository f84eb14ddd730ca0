"""The bytes of records that members hold, within a budget. A member that asks for them again gets them from here."""

from __future__ import annotations

from collections import deque

from mesh.pool.state.acquired import KeptBatch
from mesh.pool.state.window import Delivery, Window

SWEEP = 100
"""The most settled batches that are kept behind an unsettled one."""


class SentBatches:
    """The bytes of sent batches, oldest first. The oldest are dropped when they exceed the budget."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: deque[tuple[Window | None, Delivery | KeptBatch, int]] = deque()
        self._sweep_at = SWEEP
        self.size = 0

    def keep(self, window: Window | None, delivery: Delivery | KeptBatch) -> None:
        """Keeps the bytes of a delivery, and drops the oldest above the budget. window: the window of the delivery;
        None for records that a share member acquired."""
        assert delivery.batch is not None
        size = len(delivery.batch.data)
        self._kept.append((window, delivery, size))
        self.size += size
        if len(self._kept) > self._sweep_at:
            self._sweep()
        while self.size > self._budget or (self._kept and not self._kept[0][1].held):
            self._drop()

    def trim(self, excess: int) -> None:
        """Drops about `excess` bytes, the oldest first, because all pools together keep too much."""
        aim = max(self.size - excess, 0)
        while self._kept and self.size > aim:
            self._drop()

    def _sweep(self) -> None:
        """Drops settled batches behind an old held one, whenever the number of batches has doubled."""
        self._kept = deque(entry for entry in self._kept if entry[1].held)
        self.size = sum(size for _, _, size in self._kept)
        self._sweep_at = 2 * len(self._kept) + SWEEP

    def _drop(self) -> None:
        window, delivery, size = self._kept.popleft()
        self.size -= size
        if not delivery.held:
            return
        if isinstance(delivery, KeptBatch):
            delivery.strip()
        elif window is not None:
            window.strip(delivery)

"""Bytes of what members hold, kept within a budget: a member that asks for records once more is sent them from here."""

from __future__ import annotations

from collections import deque

from mesh.pool.state.acquired import KeptBatch
from mesh.pool.state.window import Delivery, Window

SWEEP = 100
"""Settled batches that may be kept behind one that is not."""


class Replays:
    """The bytes of sent batches, oldest first; when they outgrow the budget the oldest go."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: deque[tuple[Window | None, Delivery | KeptBatch, int]] = deque()
        self._sweep_at = SWEEP
        self.size = 0

    def keep(self, window: Window | None, delivery: Delivery | KeptBatch) -> None:
        """window: of a delivery; what share members acquire is in none."""
        assert delivery.batch is not None
        size = len(delivery.batch.data)
        self._kept.append((window, delivery, size))
        self.size += size
        if len(self._kept) > self._sweep_at:
            self._sweep()
        while self.size > self._budget or (self._kept and not self._kept[0][1].held):
            self._drop()

    def trim(self, excess: int) -> None:
        """Give up so many bytes, the oldest first: all pools together keep too much."""
        aim = max(self.size - excess, 0)
        while self._kept and self.size > aim:
            self._drop()

    def _sweep(self) -> None:
        """Let go of what was settled behind an old one that is held; as often as the number has doubled."""
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

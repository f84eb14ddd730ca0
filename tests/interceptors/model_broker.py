"""A broker's producer state for one partition, as ProducerStateManager and ProducerAppendInfo keep it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from mesh.interceptors.sequences import SEQUENCES

REMEMBERED = 5


class Said(Enum):
    STORED = "stored"
    KNOWN = "stored before"
    OUT_OF_ORDER = "out of order"
    OLD_EPOCH = "old epoch"


@dataclass
class ModelBroker:
    """log: the records of all batches that were stored."""

    log: list[int] = field(default_factory=list)
    epoch: int = -1
    last: int = -1
    batches: list[tuple[int, int]] = field(default_factory=list)

    def append(self, epoch: int, first: int, records: list[int]) -> Said:
        assert records, "no batch without records comes to a broker"
        last = (first + len(records) - 1) % SEQUENCES
        if epoch < self.epoch:
            return Said.OLD_EPOCH
        if epoch == self.epoch and (first, last) in self.batches:
            return Said.KNOWN
        if epoch > self.epoch and self.epoch >= 0 and first != 0:
            return Said.OUT_OF_ORDER
        if epoch == self.epoch and first != (self.last + 1) % SEQUENCES:
            return Said.OUT_OF_ORDER
        if epoch > self.epoch:
            self.batches.clear()
        self.epoch, self.last = epoch, last
        self.batches = [*self.batches, (first, last)][-REMEMBERED:]
        self.log += records
        return Said.STORED

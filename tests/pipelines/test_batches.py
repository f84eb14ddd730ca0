"""The sources of the table of batches: the checkpoint, and the log of the landed table."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mesh.pipelines.batches import SinkLog
from mesh.pipelines.checkpoints import LeasedBatch


class FakeFolder:
    """A file for each batch, with all files up to it every third time, as Spark does it."""

    def __init__(self, batches: Sequence[Sequence[str]]) -> None:
        self.texts: dict[str, str] = {}
        every: list[str] = []
        for number, files in enumerate(batches):
            every += files
            is_compact = number % 3 == 2
            lines = [json.dumps({"path": path}) for path in (every if is_compact else files)]
            self.texts[f"{number}.compact" if is_compact else str(number)] = "\n".join(["v1", *lines])

    def names(self) -> list[str]:
        return [*self.texts, *(f".{name}.crc" for name in self.texts)]

    def has(self, name: str) -> bool:
        return name in self.texts

    def read(self, name: str) -> str:
        return self.texts[name]


BATCHES = [["a", "b"], [], ["c"], ["d"], ["e", "f"], ["g"], ["h"]]


def test_the_files_of_each_batch() -> None:
    log = SinkLog(FakeFolder(BATCHES))
    assert [log.files(number) for number in range(len(BATCHES))] == BATCHES


def test_a_batch_that_is_not_in_the_log_has_none() -> None:
    assert SinkLog(FakeFolder(BATCHES)).files(7) == []


def test_the_last_batch() -> None:
    for count in range(1, len(BATCHES) + 1):
        assert SinkLog(FakeFolder(BATCHES[:count])).last() == count - 1
    assert SinkLog(FakeFolder([])).last() == -1


def test_what_the_log_has_forgotten_is_not_guessed() -> None:
    folder = FakeFolder(BATCHES)
    del folder.texts["2.compact"], folder.texts["0"], folder.texts["1"]
    log = SinkLog(folder)
    assert log.files(5) is None
    assert log.files(6) == ["h"]


def test_the_spans_of_each_partition() -> None:
    def each(partition: int, first: int, last: int) -> dict[str, object]:
        return {"cluster": "eu", "topic": "orders", "partition": partition, "first": first, "last": last}

    offset = {"version": 1, "holder": "job", "lease": "l1", "bootstrap": {}}
    offset["ranges"] = [each(0, 90, 99), each(0, 5, 9), each(1, 0, 3)]
    assert LeasedBatch.of(f"v1\n{{}}\n{json.dumps(offset)}") == LeasedBatch(
        "job", "l1", {("eu", "orders", 0): (5, 99), ("eu", "orders", 1): (0, 3)}
    )

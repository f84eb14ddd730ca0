"""A landing starts only with the checkpoint of its table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from mesh.pipelines.checkpoints import Checkpoint, LeasedBatch
from mesh.pipelines.continuing import LandedBatch, OtherCheckpoint, check

REMEDY = "Put back the newest copy."


class FakeFolder:
    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def names(self) -> list[str]:
        return [*self._texts, *(f".{name}.crc" for name in self._texts)]

    def has(self, name: str) -> bool:
        return name in self._texts

    def read(self, name: str) -> str:
        return self._texts[name]


def checkpoint(planned: range, finished: range = range(0)) -> Checkpoint:
    """The lease of batch N is `N`."""
    offsets: dict[str, Any] = {}
    for number in planned:
        offset = {"version": 1, "holder": "job", "lease": str(number), "bootstrap": {}, "ranges": []}
        offsets[str(number)] = f"v1\n{{}}\n{json.dumps(offset)}"
    return Checkpoint(FakeFolder(offsets), FakeFolder({str(number): "" for number in finished}))


def landed(number: int, lease: str) -> LandedBatch:
    def is_of(leased: LeasedBatch) -> bool:
        return leased.lease == lease

    return LandedBatch("table", number, is_of)


def test_what_a_checkpoint_knows() -> None:
    known = checkpoint(range(7, 12), range(7, 11))
    assert (known.last(), known.finished(), known.has(6), known.has(7)) == (11, [7, 8, 9, 10], False, True)
    assert known.leased(8) == LeasedBatch("job", "8", {})
    assert checkpoint(range(0)).last() == -1
    offset = {"version": 1, "holder": "job", "lease": None, "bootstrap": {}, "ranges": []}
    empty = Checkpoint(FakeFolder({"0": f"v1\n{{}}\n{json.dumps(offset)}"}), FakeFolder({}))
    assert empty.leased(0) == LeasedBatch("job", "", {}), "the first batch may have no records"


@pytest.mark.parametrize(
    ("planned", "number", "lease"),
    [
        (range(0), -1, ""),  # everything is new
        (range(3), -1, ""),  # the table is new
        (range(3), 2, "2"),
        (range(3), 1, "1"),  # the last batch was planned only
        (range(100, 200), 50, "other"),  # so old that Spark has forgotten its lease
    ],
)
def test_the_checkpoint_of_the_table(planned: range, number: int, lease: str) -> None:
    check(checkpoint(planned), "folder", [landed(number, lease)], REMEDY)


@pytest.mark.parametrize(
    ("planned", "number", "lease", "said"),
    [
        (range(0), 0, "0", "checkpoint: folder has no batch, but table ends with batch 0"),
        (range(3), 7, "7", "checkpoint: folder ends with batch 2, but table ends with batch 7"),
        (range(3), 2, "other", "checkpoint: folder has other records in batch 2 than table"),
        (range(3), 1, "other", "checkpoint: folder has other records in batch 1 than table"),
    ],
)
def test_another_checkpoint_is_refused_with_the_remedy(planned: range, number: int, lease: str, said: str) -> None:
    good = LandedBatch("log", planned.stop - 1)
    with pytest.raises(OtherCheckpoint) as problem:
        check(checkpoint(planned), "folder", [good, landed(number, lease)], REMEDY)
    assert str(problem.value).startswith(said)
    assert str(problem.value).endswith(REMEDY)


@pytest.mark.parametrize("text", ["", "v1\n{}", 'v1\n{}\n{"version": 1, "hol'])
def test_a_checkpoint_that_is_not_whole_is_refused_with_the_remedy(text: str) -> None:
    """For example after the disk was full, or from a copy that was made while the query ran."""
    damaged = Checkpoint(FakeFolder({"0": text}), FakeFolder({}))
    with pytest.raises(OtherCheckpoint) as problem:
        check(damaged, "folder", [landed(0, "0")], REMEDY)
    assert str(problem.value) == f"checkpoint: folder is damaged: its file offsets/0 is not whole. {REMEDY}"

"""Of two queries with other records under one number, at most one lands them, at whatever point the other comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from mesh.pipelines.checkpoints import NONE, LeasedBatch
from mesh.pipelines.claims import Claims
from mesh.pipelines.continuing import OtherCheckpoint


class FakeFolder:
    """A folder in which something else may happen before each call."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.before: Callable[[], None] = lambda: None

    def names(self) -> list[str]:
        self.before()
        return sorted({*self.files, *(f".{name}.crc" for name in self.files)})

    def create(self, name: str) -> None:
        self.before()
        self.files.add(name)

    def remove(self, name: str) -> None:
        self.before()
        self.files.discard(name)


class Query:
    """A query with the leases `NAME-BATCH`. The sink passes over a batch that the table has."""

    def __init__(self, name: str, folder: FakeFolder, table: dict[int, str]) -> None:
        self._name, self._table = name, table
        self._claims = Claims(folder, name)
        self.acknowledged: list[tuple[int, str]] = []

    def land(self, *batches: int) -> None:
        for batch in batches:
            lease = f"{self._name}-{batch}"
            self._claims.claim(batch, lease)
            self._table.setdefault(batch, lease)
            self.acknowledged.append((batch, lease))


def test_the_claims_of_one_query_and_of_its_next_runs() -> None:
    folder = FakeFolder()
    for run, batches in (("first", range(3)), ("second", range(2, 3))):
        claims = Claims(folder, run)
        for batch in batches:
            claims.claim(batch, f"lease-{batch}")
    assert folder.files == {"1-lease-1-first", "2-lease-2-first", "2-lease-2-second"}
    assert claims.last() == 2
    assert claims.is_of(2, LeasedBatch("holder", "lease-2", {}))
    assert not claims.is_of(2, LeasedBatch("holder", "lease-1", {}))
    assert Claims(FakeFolder(), "run").last() == NONE


def test_the_first_batch_may_have_no_lease() -> None:
    folder = FakeFolder()
    for run in ("first", "second"):
        Claims(folder, run).claim(0, "")
    with pytest.raises(OtherCheckpoint):
        Claims(folder, "copy").claim(0, "lease")
    assert Claims(folder, "copy").is_of(0, LeasedBatch("holder", "", {}))


def test_a_later_claim_refuses_an_earlier_batch() -> None:
    folder = FakeFolder()
    Claims(folder, "one").claim(7, "lease")
    with pytest.raises(OtherCheckpoint, match="lands batch 7"):
        Claims(folder, "other").claim(6, "lease-before")
    assert folder.files == {"7-lease-one"}


def test_a_refused_query_leaves_the_number_to_the_other() -> None:
    folder = FakeFolder()
    Claims(folder, "one").claim(3, "lease")
    with pytest.raises(OtherCheckpoint, match="lands batch 3"):
        Claims(folder, "other").claim(3, "other-lease")
    Claims(folder, "next run of one").claim(3, "lease")


@pytest.mark.parametrize("batches", [1, 2, 3, 4])
@pytest.mark.parametrize("point", range(8))
def test_no_point_at_which_the_other_comes_loses_a_batch(point: int, batches: int) -> None:
    """The other lands several batches between two calls of the first. Both may be refused."""
    folder, table = FakeFolder(), dict[int, str]()
    one, other = Query("one", folder, table), Query("other", folder, table)

    def come() -> Iterator[None]:
        for _ in range(point):
            yield
        folder.before = lambda: None
        with suppress(OtherCheckpoint):
            other.land(*range(batches))

    steps = come()
    folder.before = lambda: next(steps, None)
    with suppress(OtherCheckpoint):
        one.land(0, 1)
    for query in (one, other):
        for batch, lease in query.acknowledged:
            assert table[batch] == lease

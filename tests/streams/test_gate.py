"""Which groups are asked for a description."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.streams.epochs import NONE, UNCERTAIN, Epochs
from mesh.streams.gate import STALE_TOPOLOGY, Heartbeat, is_missing, may_be_asked

GOOD = Heartbeat(version=1, member_epoch=0, error=0, statuses=frozenset({1, 5}))


def test_a_member_that_is_well_may_be_asked() -> None:
    assert may_be_asked(GOOD)
    assert may_be_asked(replace(GOOD, member_epoch=7, statuses=frozenset()))


@pytest.mark.parametrize(
    "other",
    [
        replace(GOOD, version=0),
        replace(GOOD, member_epoch=-1),
        replace(GOOD, member_epoch=-2),
        replace(GOOD, error=25),
        replace(GOOD, statuses=frozenset({STALE_TOPOLOGY})),
    ],
    ids=str,
)
def test_others_may_not(other: Heartbeat) -> None:
    assert not may_be_asked(other)


@pytest.mark.parametrize(
    ("current", "epochs", "missing"),
    [
        (3, Epochs(), True),
        (0, Epochs(), True),
        (NONE, Epochs(), False),
        (3, Epochs(stored=3), False),
        (3, Epochs(stored=2), True),
        (3, Epochs(stored=UNCERTAIN), True),
        (3, Epochs(failed=3), False),
        (3, Epochs(stored=UNCERTAIN, failed=3), False),
        (3, Epochs(failed=2), True),
    ],
)
def test_a_description_is_missing_unless_it_is_stored_or_refused(current: int, epochs: Epochs, missing: bool) -> None:
    assert is_missing(current, epochs) is missing

"""A copy knows producers by the ids that their next batches will have at the target."""

from __future__ import annotations

import pytest

from mesh.routing.moves.producers import producer_ids
from mesh.routing.producer_ids import tagged

HOME, OTHER = 5, 9


@pytest.mark.parametrize(
    ("source", "to_home", "known", "there"),
    [
        pytest.param(None, False, 7, tagged(HOME, 7), id="from the cluster that gave it"),
        pytest.param(OTHER, True, tagged(HOME, 7), 7, id="to the cluster that gave it"),
        pytest.param(OTHER, False, tagged(HOME, 7), tagged(HOME, 7), id="from one other to another"),
        pytest.param(OTHER, True, 7, tagged(OTHER, 7), id="one of the source itself, which the home has given, too"),
        pytest.param(None, False, tagged(OTHER, 7), tagged(OTHER, 7), id="of another mesh"),
        pytest.param(None, False, -1, -1, id="none"),
    ],
)
def test_ids(source: int | None, to_home: bool, known: int, there: int) -> None:
    assert producer_ids(HOME, source, to_home=to_home)(known) == there

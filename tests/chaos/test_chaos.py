"""Kill anything at any time: no record is lost, and no acknowledged record comes again. `make chaos` runs it for
longer."""

from __future__ import annotations

import pytest

from tests.chaos.__main__ import run
from tests.integration.jars import missing_programs

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
]


@pytest.mark.timeout(400)
def test_twenty_seconds() -> None:
    outcome = run(2486, 20.0)
    assert outcome.is_good, str(outcome)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_minute() -> None:
    outcome = run(2892, 60.0)
    assert outcome.is_good, str(outcome)

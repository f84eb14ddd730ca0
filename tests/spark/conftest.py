"""One Spark session for all tests, and the bench of the acceptance tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.conftest import bench as bench
from tests.spark.session import start_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="Spark is an extra: pip install 'kafka-mesh[spark]'")
    session = start_session()
    yield session
    session.stop()

"""One broker and one relay for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.router.authorizer.bed import Sides, opened


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with opened(tmp_path_factory.mktemp("authorizer")) as made:
        yield made

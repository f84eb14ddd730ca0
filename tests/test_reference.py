"""The generated pages are those that the code gives."""

from __future__ import annotations

import pytest

from tests.reference import GENERATED, ROOT


@pytest.mark.parametrize("path", GENERATED)
def test_a_generated_page_is_up_to_date(path: str) -> None:
    """Run `make reference` after a change of the code."""
    assert (ROOT / path).read_text() == GENERATED[path]()

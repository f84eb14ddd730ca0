"""The list of decisions names each of them once, and no others."""

from __future__ import annotations

import re
from pathlib import Path

DECISIONS = Path(__file__).parents[1] / "docs" / "decisions"


def test_every_decision_is_listed_once_under_its_number() -> None:
    listed = re.findall(r"^\| \[(\d{4})\]\(([^)]*)\)", (DECISIONS / "README.md").read_text(), flags=re.MULTILINE)
    assert sorted(name for _, name in listed) == sorted(path.name for path in DECISIONS.glob("0*.md"))
    assert all(name.startswith(f"{number}-") for number, name in listed)
    assert len({number for number, _ in listed}) == len(listed)

"""The picture on the first page shows the present screen."""

from __future__ import annotations

from pathlib import Path

from mesh.demo.display.plain import attaching
from mesh.demo.stage import GROUP

ROOT = Path(__file__).parents[2]
PICTURE = "docs/pictures/demo.svg"


def test_the_first_page_shows_it() -> None:
    assert f"]({PICTURE})" in (ROOT / "README.md").read_text()


def test_it_is_of_this_screen() -> None:
    """The picture shows the present screen: `make picture` takes a new one."""
    text = (ROOT / PICTURE).read_text().replace("&#160;", " ").replace("&quot;", '"').replace("&#x27;", "'")
    for shown in ("share", "in flight", "last commit", "redelivered", "backlog", "kill -9", "yours", "what happened"):
        assert shown in text, shown
    for line in attaching("", GROUP)[2:]:
        assert line.split('"')[0].strip() in text, line
    assert "was killed (kill -9), with" in text
    assert " records came to " in text

"""Links of pages, as they are on the site."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_SPEC = importlib.util.spec_from_file_location("site_of_docs", ROOT / "docs/site.py")
assert _SPEC is not None and _SPEC.loader is not None
site = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(site)


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("README.md", "docs/tools.md", "tools.md"),
        ("README.md", "docs/decisions/README.md", "decisions/README.md"),
        ("README.md", "CONTRIBUTING.md", "contributing.md"),
        ("README.md", "docs/pictures/demo.svg", "pictures/demo.svg"),
        ("docs/migration.md", "../README.md#what-a-pool-guarantees", "index.md#what-a-pool-guarantees"),
        ("docs/migration.md", "tools.md#kafkas-tools-at-the-mesh", "tools.md#kafkas-tools-at-the-mesh"),
        ("docs/configuration.md", "../config/full.yaml", "config/full.yaml"),
        ("docs/decisions/README.md", "0003-virtual-offsets-with-slots.md", "0003-virtual-offsets-with-slots.md"),
        ("docs/decisions/0003-virtual-offsets-with-slots.md", "../how-it-works.md", "../how-it-works.md"),
        ("benchmarks/README.md", "../docs/performance.md", "performance.md"),
        ("docs/tools.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("docs/tools.md", "#in-a-browser", "#in-a-browser"),
    ],
)
def test_a_link(page: str, link: str, there: str) -> None:
    assert site.translated(f"see [it]({link}), and", page) == f"see [it]({there}), and"


def test_what_a_page_links_to_outside_of_docs_comes_along() -> None:
    page = (ROOT / "docs/deployment.md").read_text()
    along = site.outside(page, "docs/deployment.md")
    assert {"config/kubernetes/kafka-mesh.yaml", "config/prometheus/alerts.yaml"} <= along


def test_pages_that_are_in_no_section() -> None:
    everything = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert site.unlisted(everything) == []
    assert site.unlisted(everything - {"tools.md", "spark.md"}) == ["spark.md", "tools.md"]


def test_each_page_is_in_a_section() -> None:
    named = re.findall(r"^ {6}- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert len(named) == len(set(named)) > 40
    assert site.unlisted(set(named)) == []


def test_contents_for_programs() -> None:
    nav = [{"Start": [{"kafka-mesh": "index.md"}, {"Choosing": "choosing.md"}]}, {"Work": [{"Log": "log.md"}]}]
    assert site.contents(nav, "kafka-mesh", "A proxy") == (
        "# kafka-mesh\n\n> A proxy\n\n## Start\n\n- [kafka-mesh](index.md)\n- [Choosing](choosing.md)\n"
        "\n## Work\n\n- [Log](log.md)\n"
    )


def test_the_pages_that_stand_elsewhere_are_there() -> None:
    assert all((ROOT / path).is_file() for path in site.PAGES)


def test_a_mermaid_picture_is_a_drawing_on_the_site() -> None:
    page = "before\n\n```mermaid\nflowchart LR\n    a --> b\n```\n\nafter\n"
    (picture,) = site.pictures(page)
    name = Path(site.drawing(picture)).name
    assert site.drawn(page, "docs/tools.md") == f"before\n\n![picture](pictures/mermaid/{name})\n\nafter\n"
    assert f"(../pictures/mermaid/{name})" in site.drawn(page, "docs/decisions/0001-x.md")


def test_each_picture_has_its_drawing_and_no_drawing_is_left_over() -> None:
    """Run `python -m tests.drawings` after a change of a picture."""
    drawings = {
        site.drawing(each) for page in (ROOT / "docs").rglob("*.md") for each in site.pictures(page.read_text())
    }
    assert drawings == {str(file.relative_to(ROOT)) for file in (ROOT / "docs/pictures/mermaid").iterdir()}

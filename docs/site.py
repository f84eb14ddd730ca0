"""A hook of MkDocs. Pages and files that stand elsewhere in the repository become part of the site, and links to them
work there as they do in the repository. Mermaid pictures become drawings, so that the site needs no script from
elsewhere.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-reports.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Pages that do not stand in docs/: where they are on the site."""

_written: Final[dict[str, str]] = {}
"""The Markdown of each page as it is on the site, by its path there."""
_MERMAID: Final = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")


def place(path: str) -> str:
    """Where a file of the repository is on the site."""
    return PAGES.get(path) or path.removeprefix("docs/")


def translated(text: str, path: str) -> str:
    """A page with its links as they must be on the site. path: of the page, in the repository."""
    here = posixpath.dirname(place(path))

    def link(found: re.Match[str]) -> str:
        return found[1] + posixpath.relpath(place(_target(path, found[2])), here or ".") + found[3]

    return _LINK.sub(link, text)


def pictures(text: str) -> list[str]:
    """The texts of the Mermaid pictures of a page."""
    return _MERMAID.findall(text)


def drawing(picture: str) -> str:
    """Path of the drawing of a picture. A picture that changes has another one: `python -m tests.drawings` makes it."""
    return f"docs/pictures/mermaid/{hashlib.sha256(picture.encode()).hexdigest()[:12]}.svg"


def drawn(text: str, path: str) -> str:
    """A page with drawings in place of its Mermaid pictures. path: of the page, in the repository."""
    here = posixpath.dirname(path) or "."
    return _MERMAID.sub(lambda found: f"![picture]({posixpath.relpath(drawing(found[1]), here)})", text)


def outside(text: str, path: str) -> set[str]:
    """Files of the repository that a page links to and that are no pages of docs/."""
    targets = {_target(path, found[2]) for found in _LINK.finditer(text)}
    return {target for target in targets if not target.startswith("docs/") and (ROOT / target).is_file()}


def _target(path: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def contents(nav: list[dict[str, list[dict[str, str]]]], title: str, description: str) -> str:
    """The file llms.txt: the pages by sections, as Markdown with links to Markdown (https://llmstxt.org)."""
    lines = [f"# {title}", "", f"> {description}"]
    for section in nav:
        for name, entries in section.items():
            links = (f"- [{page}]({path})" for entry in entries for page, path in entry.items())
            lines += ["", f"## {name}", "", *links]
    return "\n".join(lines) + "\n"


def on_config(config: MkDocsConfig) -> None:
    """A page that nobody has put into a section yet is found all the same."""
    sections = [entries for section in config.nav or () for entries in section.values()]
    named = {page for entries in sections for entry in entries for page in entry.values()}
    if more := unlisted(named):
        config.nav = [*(config.nav or ()), {"More": more}]


def unlisted(named: set[str]) -> list[str]:
    """Pages of docs/ that are not among these."""
    return sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name not in named)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    pages = [*PAGES, *(f"docs/{file.src_uri}" for file in files.documentation_pages())]
    linked = {target for page in pages for target in outside((ROOT / page).read_text(), page)}
    for target in sorted(linked | PAGES.keys()):
        files.append(File.generated(config, place(target), abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    sources = {site: path for path, site in PAGES.items()}
    path = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    _written[page.file.src_uri] = text = translated(drawn(markdown, path), path)
    return text


def on_post_build(config: MkDocsConfig) -> None:
    """Puts llms.txt and the Markdown of each page into the site."""
    folder = Path(config.site_dir)
    nav: Any = config.nav
    (folder / "llms.txt").write_text(contents(nav, config.site_name, config.site_description or ""))
    for uri, text in _written.items():
        (folder / uri).write_text(text)

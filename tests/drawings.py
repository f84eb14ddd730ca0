"""`python -m tests.drawings`: draws the Mermaid pictures of all pages into docs/pictures/mermaid.

The site shows these drawings (docs/site.py). Needs Chromium, and npm for the package `mermaid`.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tests.test_site import ROOT, site

MERMAID: Final = "mermaid@11.17.2"
PAGE: Final = """<!doctype html><meta charset="utf-8"><body><pre id="drawings"></pre><script>%s</script><script>
const settings = {startOnLoad: false, theme: "neutral", htmlLabels: false, flowchart: {htmlLabels: false}};
mermaid.initialize({...settings, fontFamily: "sans-serif"});
(async () => {
    const drawings = {};
    for (const [name, text] of Object.entries(%s)) drawings[name] = (await mermaid.render("m" + name, text)).svg;
    document.getElementById("drawings").textContent = JSON.stringify(drawings);
})();
</script>"""


def script(folder: Path) -> str:
    """Mermaid's script, from npm."""
    subprocess.run(["npm", "pack", "--silent", MERMAID], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (packed,) = folder.glob("*.tgz")
    with tarfile.open(packed) as archive:
        member = archive.extractfile("package/dist/mermaid.min.js")
        assert member is not None
        return member.read().decode().replace("</script", "<\\/script")


def drawn(texts: dict[str, str]) -> dict[str, str]:
    """The drawings of these pictures, as SVG on white."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium is not None, "install Chromium"
    with tempfile.TemporaryDirectory() as name:
        page = Path(name, "page.html")
        page.write_text(PAGE % (script(Path(name)), json.dumps(texts)))
        command = [chromium, "--headless", "--no-sandbox", "--virtual-time-budget=20000", "--dump-dom", page.as_uri()]
        dom = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r'<pre id="drawings">(.+?)</pre>', dom, re.DOTALL)
    assert found is not None, "Mermaid cannot draw one of the pictures"
    drawings: dict[str, str] = json.loads(html.unescape(found[1]))
    return {name: _sized(drawing) for name, drawing in drawings.items()}


def _sized(drawing: str) -> str:
    """A drawing with its own size, as an image on a page needs it, and a white background."""
    left, top, width, height = re.findall(r"[-\d.]+", re.search(r'viewBox="([^"]+)"', drawing)[1])  # type: ignore[index]
    ground = f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="#fff"/>'
    begin = re.sub(r' (width|height|style)="[^"]*"', "", drawing[: drawing.index(">") + 1])
    begin = begin.replace("<svg", f'<svg width="{width}" height="{height}"', 1)
    return f"{begin}{ground}{drawing[drawing.index('>') + 1 :]}\n"


def main() -> int:
    pages = [page.read_text() for page in (ROOT / "docs").rglob("*.md")]
    texts = {Path(site.drawing(each)).stem: each for page in pages for each in site.pictures(page)}
    folder = ROOT / "docs/pictures/mermaid"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, drawing in drawn(texts).items():
        (folder / f"{name}.svg").write_text(drawing)
    return 0


if __name__ == "__main__":
    sys.exit(main())

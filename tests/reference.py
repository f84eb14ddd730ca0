"""Writes the pages of docs/ that are generated from code: `make reference`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests import evidence

ROOT: Final = Path(__file__).parents[1]
GENERATED: Final[Mapping[str, Callable[[], str]]] = {
    "docs/evidence.md": evidence.page,
}
"""Generated files, and the functions that render them."""


def main() -> None:
    for path, render in GENERATED.items():
        (ROOT / path).write_text(render())


if __name__ == "__main__":
    main()

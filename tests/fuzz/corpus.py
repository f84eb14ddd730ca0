"""The kept inputs: a few that reach all branches that all inputs reach."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"


def inputs(target: str) -> list[bytes]:
    """The inputs, always in the same order."""
    return [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]

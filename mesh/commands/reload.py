"""`kafka-mesh reload`: tells a running mesh to read its configuration again, and waits until that is in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mesh.commands.status import Refused, StatusUnavailable, ask


class NotReloaded(Exception):
    """The configuration was refused, and nothing has changed. file: which one; problems: a line each."""

    def __init__(self, file: str, problems: tuple[str, ...]) -> None:
        super().__init__(file)
        self.file, self.problems = file, problems


def reload(url: str, token: str | None, trusted: Path | None, timeout: float, tell: Callable[[str], None]) -> None:
    """Raises StatusUnavailable and NotReloaded. tell: prints a line."""
    try:
        found = ask(url, "/reload", token, trusted, "POST", timeout)
    except Refused as refused:
        if not refused.answer.get("problems"):
            raise
        problems = tuple(map(str, refused.answer["problems"]))
        raise NotReloaded(str(refused.answer.get("file")), problems) from None
    try:
        tell(f"{found['file']} is in use, hash {found['hash']}")
        for change in found["changes"] or ["nothing has changed in it"]:
            tell(f"  {change}")
    except KeyError as problem:
        raise StatusUnavailable("what answers there does not answer as kafka-mesh does") from problem

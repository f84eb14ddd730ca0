"""`kafka-mesh reload`: asks a running mesh to read its configuration again, and waits until that is in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mesh.commands.status import RefusedByMesh, StatusUnavailable, ask


class NotReloaded(Exception):
    """Raised when the configuration was refused, and nothing has changed. file: the refused file. problems: a line
    each."""

    def __init__(self, file: str, problems: tuple[str, ...]) -> None:
        super().__init__(file)
        self.file, self.problems = file, problems


def reload(url: str, token: str | None, trusted: Path | None, timeout: float, report: Callable[[str], None]) -> None:
    """Makes a running mesh read its configuration again, and waits. report: called with each line of output. Raises
    StatusUnavailable and NotReloaded."""
    try:
        found = ask(url, "/reload", token, trusted, "POST", timeout)
    except RefusedByMesh as refused:
        if not refused.answer.get("problems"):
            raise
        problems = tuple(map(str, refused.answer["problems"]))
        raise NotReloaded(str(refused.answer.get("file")), problems) from None
    try:
        report(f"{found['file']} applied, hash {found['hash']}")
        for change in found["changes"] or ["nothing has changed"]:
            report(f"  {change}")
        problems = found["problems"]
    except KeyError as problem:
        raise StatusUnavailable("not a kafka-mesh admin address") from problem
    if problems:
        reasons = "; ".join(map(str, problems))
        raise StatusUnavailable(f"some parts could not be changed; see the log, and reload again: {reasons}")

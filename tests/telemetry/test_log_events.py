"""docs/logs.md has every event of the log, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from mesh.pool.interventions import Action
from mesh.telemetry.upstream_health import WORDS

ROOT = Path(__file__).parents[2]
LEVELS = frozenset({"debug", "info", "warning", "error", "exception"})
LOGGERS = frozenset({"log", "self._log", "logger"})
COMPOSED = {
    "self._outbox.report(f'records {_DONE[action]} by an operator')",
    "log.warning(f'{what} offsets skipped: gone upstream')",
}
"""Composed texts, with their results."""
PASSED_ON = {"event", "told", "over"}
"""Variables that hold the event; their texts are constants of the same file."""
OTHERS = {
    *(f"records {done} by an operator" for done in ("settled", "buried", "released")),
    *(f"{what} offsets skipped: gone upstream" for what in ("unacknowledged", "unread")),
    *(each for words in WORDS.values() for each in (words.event, words.over)),
    "connection closed: limit",
    "connection closed: protocol error",
    "dead letter not written; retrying",
    "group joined for a moment",
    "group not joined",
    "member without commits lost its records",
    "records and acknowledgements discarded: upstream log truncated",
    "silent member lost its records",
}


def calls() -> Iterator[tuple[Path, ast.Call]]:
    """Calls that write an entry, with the event as their first argument."""
    for file in sorted((ROOT / "mesh").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                base = ast.unparse(node.func.value)
                if (node.func.attr in LEVELS and base in LOGGERS) or (node.func.attr == "report" and "outbox" in base):
                    yield file, node


def documented() -> list[str]:
    page = (ROOT / "docs" / "logs.md").read_text()
    return re.findall(r"^\| `([^`]+)` \| (?:debug|info|warning|error) \|", page, re.MULTILINE)


def test_every_event_is_explained_and_nothing_else() -> None:
    written: set[str] = set()
    for file, call in calls():
        match call.args[0]:
            case ast.Constant(str(event)):
                written.add(event)
            case ast.Name(name) if name in PASSED_ON:
                pass
            case ast.JoinedStr() as text:
                assert f"{ast.unparse(call.func)}({ast.unparse(text)})" in COMPOSED, file
            case other:
                raise AssertionError(f"{file}: {ast.unparse(other)}: its texts are not known here")
    events = documented()
    assert len(events) == len(set(events))
    assert set(events) == written | OTHERS


def test_the_others_are_texts_of_the_code() -> None:
    source = "\n".join(file.read_text() for file in (ROOT / "mesh").rglob("*.py"))
    composed = {each for each in OTHERS if each.startswith(("records ", "unack", "unread")) and "discarded" not in each}
    assert all(f'"{event}"' in source for event in OTHERS - composed)
    assert len(composed) == len(Action) + 2


def test_events_are_short_and_without_an_article() -> None:
    for event in documented():
        assert not re.match(r"(an?|the|who|what) ", event, re.IGNORECASE), event
        assert len(event.split()) <= 13, event

"""The pages for users, and the blocks in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = tuple(
    str(path.relative_to(ROOT))
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")),
        *sorted((ROOT / "docs").glob("*.md")),
    )
)
TOOLS: Final = frozenset(
    {
        *("kafka-mesh", ".venv/bin/kafka-mesh", "make", "git", "kill", "systemctl", "curl", "jq", "openssl"),
        *("pip", ".venv/bin/pip", "python", "python3", ".venv/bin/python", "spark-submit"),
        *("docker", "kubectl", "promtool", "kcat", "kafka-consumer-groups.sh", "kafka-console-consumer.sh"),
    }
)
"""First words of commands in an indented block. In a fenced `sh` block every line is a command."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block with its language, or an indented one with none."""

    language: str | None
    text: str


def blocks(page: str) -> Iterator[Block]:
    """page: its path in the repository."""
    fenced: list[str] | None = None
    indented: list[str] = []
    language = ""
    for line in [*(ROOT / page).read_text().splitlines(), ""]:
        stripped = line.strip()
        if stripped.startswith("```"):
            if fenced is None:
                fenced, language = [], stripped[3:]
            else:
                yield Block(language, "\n".join(fenced))
                fenced = None
        elif fenced is not None:
            fenced.append(line)
        elif re.match(r" {4,}\S", line):
            indented.append(stripped)
        elif indented:
            yield Block(None, "\n".join(indented))
            indented = []


def commands(page: str) -> Iterator[str]:
    """Every shell command of a page, one a line, without comments."""
    for block in blocks(page):
        if block.language in (None, "sh", "bash", "console"):
            for command in _joined(block.text):
                if block.language is not None or command.split()[0] in TOOLS:
                    yield command


def _joined(text: str) -> Iterator[str]:
    pending = ""
    for line in text.splitlines():
        line = re.sub(r"(^|\s+)#\s.*$", "", line).strip()
        pending = f"{pending} {line}".strip()
        if pending.endswith("\\"):
            pending = pending[:-1].strip()
        elif _is_whole(pending):
            if pending:
                yield pending
            pending = ""
    if pending:
        yield pending


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return False
    return True

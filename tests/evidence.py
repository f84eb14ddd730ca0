"""Renders docs/evidence.md: the tests behind the statements of the pages, from tests/evidence.yaml."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).parents[1]
GUARANTEES: Final = "guarantees.md"
_FUNCTION: Final = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
_SHARD: Final = re.compile(r"shard ([a-z-]+): (.+)")
_HEAD: Final = """\
# Evidence

Use this page to find the tests behind a statement of the other pages. `make reference` writes it from
[`tests/evidence.yaml`](../tests/evidence.yaml), and tests check that everything it names exists. Most tests run at each
change (`make test`). Tests of a *shard* kill processes, wait for time limits, or need many brokers: `make test-long
SHARD=pool` runs the shard `pool`, and `.ci/shards.tsv` has the last results of all shards."""


@cache
def statements() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """The tests of each statement, by page or "PAGE: SECTION"."""
    loaded: Mapping[str, Mapping[str, Sequence[str]]] = yaml.safe_load((ROOT / "tests/evidence.yaml").read_text())
    return {page: {str(statement): refs for statement, refs in rows.items()} for page, rows in loaded.items()}


def promises() -> dict[str, str]:
    """The rows of docs/guarantees.md by their numbers: their texts, without the exceptions."""
    rows = (
        re.fullmatch(r"\| ([A-Z]\d+) \| (.+?)(?: \|.*)? \|", line)
        for line in (ROOT / "docs" / GUARANTEES).read_text().splitlines()
    )
    return {row[1]: row[2] for row in rows if row is not None}


@cache
def files_of_tests() -> Mapping[str, Sequence[Path]]:
    """The files that have a test function, or a state machine's method, of each name."""
    found: dict[str, list[Path]] = defaultdict(list)
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in set(_FUNCTION.findall(file.read_text())):
            found[name].append(file)
    return found


def shard_of(ref: str) -> str | None:
    """The shard that a line of a statement names."""
    return found[1] if (found := _SHARD.fullmatch(ref)) is not None else None


def function_of(ref: str) -> str | None:
    """The test function that a line of a statement names."""
    name = ref.rpartition("::")[2]
    return name if name.startswith("test_") and not name.endswith(".py") else None


def places(ref: str) -> Sequence[Path]:
    """The files and folders of the tests that a line of a statement names. A line without tests has none."""
    if _SHARD.fullmatch(ref) or ref.startswith("none: "):
        return ()
    named, _, function = ref.partition("::")
    if function_of(ref) is None:
        return [path] if (path := ROOT / "tests" / named).exists() else ()
    files = files_of_tests().get(function or named, ())
    return [file for file in files if file == ROOT / "tests" / named] if function else files


def page() -> str:
    """The whole of docs/evidence.md."""
    parts = [_HEAD]
    texts = promises()
    for title, rows in statements().items():
        is_promise = title == GUARANTEES
        document, _, section = title.partition(": ")
        parts.append(f"## {title}")
        parts.append(f"From [{document}]({document}){f', {section}' if section else ''}.")
        lines = ["| statement | tests |", "|---|---|"]
        for statement, refs in rows.items():
            said = f"**{statement}** {_plain(texts[statement])}" if is_promise else _plain(statement)
            lines.append(f"| {said} | {', '.join(map(_shown, refs))} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """A text without links and bold type."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("**", "")


def _shown(ref: str) -> str:
    if shard := _SHARD.fullmatch(ref):
        return f"shard `{shard[1]}`: {shard[2]}"
    if ref.startswith("none: "):
        return ref
    (file,) = places(ref)
    name = function_of(ref) or ref
    return f"[`{name}`](../{file.relative_to(ROOT)})" if file.is_file() else f"`{name}`"

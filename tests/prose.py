"""Checks the English of the documentation and of docstrings: long lines, long sentences, words to avoid, clauses that
begin with a pronoun.

`python -m tests.prose` lists the problems; `make lint` runs it. Tables and blocks of code may be of any length.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.document import BEGIN, END

ROOT = Path(__file__).parents[1]
COLUMNS = 120
WORDS = 30
"""The most words of a sentence of a page. The change log and docstrings may have `WORDS_OF_CODE`."""
WORDS_OF_CODE = 40
CHANGES = "CHANGELOG.md"
CLAUSES = 0.5
"""The most who and what clauses in 1,000 words of all pages together, without the generated ones."""
CLAUSE = re.compile(r"\b(who|what|whoever|whatever|nobody|somebody)\b(?! to\b)(?![^.|\n]*\?)", re.IGNORECASE)
INSTEAD = {
    r"\bwhoever\b": "a member that, a client that, a process that",
    r"\bWho (is|has|had|does|holds|reads|asks|joins|comes|gets|gives|may|might)\b(?![^.|]*\?)": "A member that",
    r"\bwho (asks|holds|comes|joins|commits|fetches|waits|reads|writes|leaves|gets)\b": "a member that, a client that",
    r"\bhad better\b": "should",
    r"\bis there no more\b": "is gone",
    r"\b[Mm]ended\b": "fixed, corrected",
    r"\bgo(es)? by names\b": "decides by names",
    r"\bun-acknowledged\b": "unacknowledged",
    r"\banew\b": "again",
    r"\bbut for\b": "except for",
    r"\bsuch that\b": "so that",
    r"\bas far as\b": "if, up to",
    r"\b(is|are) (told|said) (to|that)\b": "a verb in the active voice",
    r"\bso many\b (?!that)": "at most N",
}
"""Constructions to avoid, and what to write instead."""
CODE = ("mesh", "pyspark_kafka_mesh")
BEGINNINGS = re.compile(r"(What|Who|Whose|Whom|Whoever|How|Which|Whether|Why)\b")
"""First words of a docstring that does not say what the thing is, does or returns."""
LISTS = re.compile(r"\w+(, \w+)*: ")
"""A docstring of a class that begins with a list of parameters."""


def pages() -> list[Path]:
    named = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")
    return [*(ROOT / name for name in named), *sorted((ROOT / "docs").glob("*.md"))]


def is_generated(page: Path) -> bool:
    """True for a page that `make reference` writes."""
    return "`make reference` writes" in " ".join(page.read_text().split())


def problems(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.split("\n"), 1):
        for pattern, instead in INSTEAD.items():
            if (found := re.search(pattern, line)) is not None and not line.startswith("#"):
                yield f"{name}:{number}: {found[0]!r}: write {instead}"
    for number, line in _prose(text):
        if len(line) > COLUMNS and " " in line.strip().lstrip("*-0123456789. "):
            yield f"{name}:{number}: {len(line)} columns, {COLUMNS} at most"
    for number, sentence in _sentences(text):
        most = WORDS_OF_CODE if name == CHANGES else WORDS
        if (count := len(sentence.split())) > most:
            yield f"{name}:{number}: a sentence of {count} words, {most} at most: {sentence[:60]} ..."


def clauses(text: str) -> tuple[list[str], int]:
    """The who and what clauses of a page, and the number of its words. Headings, code and links do not count."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"\[[^\]]*\]\([^)]*\)", "link", re.sub(r"`[^`]*`", "code", text))
    lines = text.split("\n")
    is_title = [
        line.startswith("#") or after.startswith("|---") for line, after in zip(lines, [*lines[1:], ""], strict=True)
    ]
    body = " \n".join(line for line, left_out in zip(lines, is_title, strict=True) if not left_out)
    return [body[max(found.start() - 20, 0) : found.end() + 20] for found in CLAUSE.finditer(body)], len(body.split())


def docstring_problems(name: str, source: str) -> Iterator[str]:
    """The problems of the docstrings in a file of code."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds) and (docstring := ast.get_docstring(node)) is not None:
            where = f"{name}:{getattr(node, 'lineno', 1)}"
            if (found := BEGINNINGS.match(docstring)) is not None:
                yield f"{where}: a docstring begins with {found[0]!r}: say what it is, does or returns"
            if isinstance(node, ast.ClassDef) and LISTS.match(docstring):
                yield f"{where}: a docstring begins with parameters: say first what the class is"
            for _, sentence in _sentences(docstring):
                if (count := len(sentence.split())) > WORDS_OF_CODE:
                    yield f"{where}: a sentence of {count} words, {WORDS_OF_CODE} at most: {sentence[:60]} ..."


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines outside of tables, pictures, blocks of code, and generated parts."""
    is_code = is_written = is_list = False
    for number, line in enumerate(text.split("\n"), 1):
        is_list = bool(line) and (is_list or re.match(r"([*-]|\d+\.) ", line) is not None)
        is_block = line.startswith("    ") and not is_list
        if line in {BEGIN, END}:
            is_written = line == BEGIN
        elif is_written:
            continue
        elif line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not is_block and not line.lstrip().startswith(("|", "![", "<")):
            yield number, line


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Sentences, each with the line in which its paragraph begins. A colon or semicolon ends one; code counts as one
    word, links as their texts."""
    begin, lines, last = 0, list[str](), 0
    for number, line in [*_prose(text), (sys.maxsize, "")]:
        is_new = not line.strip() or re.match(r"\s*([-*]|\d+\.)\s|#", line) is not None or number != last + 1
        if is_new and lines:
            whole = re.sub(r"`[^`]*`", "code", " ".join(lines))
            whole = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", whole)
            yield from ((begin, each) for each in re.split(r"(?<=[.!?:;])\s+", whole))
            lines = []
        if line.strip():
            begin = begin if lines else number
            lines.append(line.strip())
        last = number


def main() -> int:
    found = [each for page in pages() for each in problems(str(page.relative_to(ROOT)), page.read_text())]
    for file in (each for folder in CODE for each in sorted((ROOT / folder).rglob("*.py"))):
        found.extend(docstring_problems(str(file.relative_to(ROOT)), file.read_text()))
    counted = [clauses(page.read_text()) for page in pages() if page.name != CHANGES and not is_generated(page)]
    number, words = sum(len(each) for each, _ in counted), sum(count for _, count in counted)
    if 1_000 * number > CLAUSES * words:
        found.append(f"{number} who and what clauses in {words} words, {CLAUSES} in 1,000 at most:")
        found.extend(clause.replace("\n", "") for each, _ in counted for clause in each)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

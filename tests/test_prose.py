"""The checks of the documentation's English."""

from __future__ import annotations

import pytest

from tests.prose import docstring_problems, main, problems


def test_the_documentation_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("word " * 41 + "end.", "a sentence of 42 words"),
        ("word " * 20 + "\n" + "word " * 21 + "end.", "a sentence of 42 words"),
        ("* " + "word " * 41, "a sentence of 42 words"),
        ("a " * 70 + ".", "columns"),
        ("It goes to whoever asks.", "'whoever': write"),
        ("It goes to who asks next.", "'who asks': write a member that"),
        ("Who is full waits.", "'Who is': write A member that"),
        ("| key | Who may log in |", "'Who may': write"),
        ("* an item\n    * " + "word " * 40 + "end.", "a sentence of 42 words"),
    ],
)
def test_what_is_told(text: str, problem: str) -> None:
    assert any(problem in each for each in problems("page.md", text))


@pytest.mark.parametrize(
    "text",
    [
        "w " * 39 + "end.",
        "w " * 28 + ": " + "w " * 28 + ".",
        "| " + "w " * 60 + " |",
        "```\n" + "w " * 60 + "\n```",
        "`" + "w " * 20 + "`. One [link](" + "x" * 20 + ").",
        "https://example.org/" + "x" * 130,
        "Who is next?",
    ],
)
def test_what_is_not(text: str) -> None:
    assert not list(problems("page.md", text))


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ('"""What a module is for."""', "module.py:1: a docstring begins with 'What'"),
        ('class A:\n    """Who asks."""', "module.py:1: a docstring begins with 'Who'"),
        ('class A:\n    """first, last: offsets."""', "module.py:1: a docstring begins with parameters"),
        ('\ndef f() -> bool:\n    """Whether it is."""', "module.py:2: a docstring begins with 'Whether'"),
        ('def f() -> None:\n    """' + "word " * 41 + 'end."""', "module.py:1: a sentence of 42 words"),
    ],
)
def test_what_is_told_of_docstrings(source: str, problem: str) -> None:
    assert any(each.startswith(problem) for each in docstring_problems("module.py", source))


@pytest.mark.parametrize(
    "source",
    [
        '"""A module."""',
        'class A:\n    """A range. first, last: offsets."""',
        'def f() -> bool:\n    """True if it is."""',
        'def f(first: int) -> int:\n    """first: an offset."""',
        "def f() -> None: ...",
    ],
)
def test_what_is_not_told_of_docstrings(source: str) -> None:
    assert not list(docstring_problems("module.py", source))

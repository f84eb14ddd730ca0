"""The checks of the documentation's English."""

from __future__ import annotations

import pytest

from tests.prose import CHANGES, clauses, docstring_problems, main, problems


def test_the_documentation_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("word " * 30 + "end.", "a sentence of 31 words"),
        ("word " * 20 + "\n" + "word " * 21 + "end.", "a sentence of 42 words"),
        ("The group is made anew.", "'anew': write again"),
        ("All but for kcat can do so.", "'but for': write except for"),
        ("It is built such that nothing waits.", "'such that': write so that"),
        ("It keeps them as far as it can.", "'as far as': write if"),
        ("The client is told to connect again.", "'is told to': write a verb"),
        ("Members are said to share them.", "'are said to': write a verb"),
        ("It leases so many offsets.", "'so many ': write at most N"),
        ("You had better set it.", "'had better': write should"),
        ("The defect is mended now.", "'mended': write fixed"),
        ("A router that goes by names.", "'goes by names': write decides by names"),
        ("un-acknowledged records", "'un-acknowledged': write unacknowledged"),
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
        "w " * 29 + "end.",
        "w " * 28 + ": " + "w " * 28 + ".",
        "The group is created again.",
        "All except kcat can do so.",
        "It is so large that it waits.",
        "It keeps them if there is room.",
        "The client connects again.",
        "There are so many that it waits.",
        "The mesh tells the client to connect.",
        "A member that holds nothing comes first.",
        "Idle members receive queued records first.",
        "Other members receive its uncommitted records.",
        "A commit is answered when the cluster has stored it.",
        "If kafka-mesh is killed, these records come again.",
        "A single member has no cap.",
        "| " + "w " * 60 + " |",
        "```\n" + "w " * 60 + "\n```",
        "`" + "w " * 20 + "`. One [link](" + "x" * 20 + ").",
        "https://example.org/" + "x" * 130,
        "Who is next?",
    ],
)
def test_what_is_not(text: str) -> None:
    assert not list(problems("page.md", text))


def test_the_change_log_may_have_longer_sentences() -> None:
    assert not list(problems(CHANGES, "w " * 39 + "end."))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("It gives others what it had not committed.", 1),
        ("Nobody knows who is alone.", 2),
        ("The page says what to do.", 0),
        ("Who is next?", 0),
        ("# What is left", 0),
        ("| what | how |\n|---|---|\n| a member | once |", 0),
        ("See [what is refused](unions.md#what-is-refused) and `what`.", 0),
        ("```\nwhat it is\n```", 0),
    ],
)
def test_who_and_what_clauses_are_counted(text: str, number: int) -> None:
    assert len(clauses(text)[0]) == number


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

"""A run of pytest leaves out the files without a test for it, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites import GATE, LONGEST, marks_named_in, may_have, place_in_gate

ROOT = Path(__file__).parents[1]
LONG = "long and not alone and not outside and not deep"


@pytest.mark.parametrize(
    ("expression", "named", "expected"),
    [
        (GATE, set(), True),
        (GATE, {"long"}, True),
        (LONG, set(), False),
        (LONG, {"alone"}, False),
        (LONG, {"long", "deep", "alone"}, True),
        ("long and alone", {"long"}, False),
        ("long and alone", {"long", "alone"}, True),
        ("deep", set(), False),
        ("kafka", set(), True),
        ("kafka and deep", set(), False),
    ],
)
def test_a_file_is_left_out_if_its_marks_rule_its_tests_out(expression: str, named: set[str], expected: bool) -> None:
    assert may_have(expression, named) is expected


def test_marks_are_named_or_come_by_an_import(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text("import pytest\n\n@pytest.mark.alone\n@pytest.mark.kafka\ndef test() -> None: ...\n")
    assert marks_named_in(file) == {"alone"}
    imports = tmp_path / "test_imports.py"
    imports.write_text("from tests.clients.selection import clients\n")
    assert marks_named_in(imports) == {"long", "deep"}


def test_make_runs_the_gate() -> None:
    assert f'-m "{GATE}"' in Path(__file__).parents[1].joinpath("Makefile").read_text()


def test_the_longest_files_begin_first_and_all_are_there() -> None:
    files = [str(file.relative_to(ROOT)) for file in ROOT.glob("tests/**/test_*.py")]
    assert set(LONGEST) <= set(files)
    ordered = sorted(files, key=place_in_gate)
    assert tuple(ordered[: len(LONGEST)]) == LONGEST

"""Knows every command that a page tells users to type: the test runs it, or names a test that runs it."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main
import yaml
from typer.testing import CliRunner

from mesh.cli import app
from mesh.config import load
from tests.documents import PAGES, ROOT, blocks, commands

CI: Final = ".ci/run"
VERBS: Final = {
    "bench": "tests/benchmarks/test_cases.py",
    "bench-check": "tests/benchmarks/test_cases.py",
    "bench-document": "tests/benchmarks/test_report.py",
    "bench-peers": "tests/benchmarks/test_cases.py",
    "chaos": "tests/chaos/test_chaos.py",
    "coverage": "tests/test_coverage_by_file.py",
    "demo": "tests/demo/test_demo.py",
    "docs": "tests/test_site.py",
    "help": "tests/test_commands_of_documentation.py",
    "install": CI,
    "lint": CI,
    "lock": "requirements.lock",
    "machines": "tests/test_random_machines.py",
    "picture": "tests/demo/test_picture.py",
    "reference": "tests/test_reference.py",
    "release": "tests/test_release.py",
    "soak": "tests/chaos/test_soak.py",
    "test": CI,
    "test-clients": "tests/clients/test_alone.py",
    "test-long": "tests/conftest.py",
    "test-deep": "tests/router/test_group_kills.py",
    "test-outside": "tests/outside/test_kgo.py",
}
"""The file that each verb of make runs, or runs with."""

RUN_HERE: Final = {
    "kafka-mesh --help",
    "kafka-mesh --version",
    "kafka-mesh check config/orders.yaml",
}
ELSEWHERE: Final = {
    "docker build": "tests/test_packaging.py::test_the_image_holds_nothing_but_what_runs",
    "docker run": "tests/test_packaging.py::test_the_image_runs_on_a_read_only_file_system",
    "kcat -b 127.0.0.1:19092 -G first-try orders": "tests/clients/test_alone.py::test_alone",
    "curl -s http://127.0.0.1:9644/leases": "tests/integration/test_leases.py",
    "curl -s http://127.0.0.1:9644/readyz": "tests/test_getting_started.py::test_the_page_from_top_to_bottom",
    "kafka-consumer-groups.sh": "tests/integration/test_tools.py::test_kafka_consumer_groups",
    "pip install 'kafka-mesh[spark]'": "tests/spark/test_source.py",
}
"""Beginnings of other programs' commands."""


def everything() -> list[tuple[str, str]]:
    return sorted({(page, command.removeprefix(".venv/bin/")) for page in PAGES for command in commands(page)})


@cache
def words_of_tests() -> dict[Path, set[str]]:
    """The texts in each file of tests."""
    return {
        path: {node.value for node in ast.walk(ast.parse(path.read_text())) if _is_text(node)}  # type: ignore[attr-defined]
        for path in (ROOT / "tests").rglob("*.py")
        if path.name != Path(__file__).name
    }


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@pytest.mark.parametrize(("page", "command"), everything())
def test_it_is_known(page: str, command: str) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        assert_verb(words[1])
    elif words[0] == "kafka-mesh":
        assert_of_ours(words[1:])
    else:
        named = [test for beginning, test in ELSEWHERE.items() if command.startswith(beginning)]
        assert named, f"no test is known that runs what {page} says: {command}"
        assert_there(named[0])


def assert_verb(verb: str) -> None:
    assert re.search(rf"^{verb}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"make knows no {verb}"
    assert_there(VERBS[verb])


def assert_of_ours(arguments: list[str]) -> None:
    """Asserts that the command has these sub-commands and options, and that a test uses it."""
    command: Any = typer.main.get_command(app)
    names: list[str] = []
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("-"):
        names.append(arguments[0])
        command, arguments = command.commands[arguments[0]], arguments[1:]
    options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    assert {word for word in arguments if word.startswith("--")} <= options
    assert not names or any(set(names) <= words for words in words_of_tests().values()), f"no test runs {names}"


def assert_there(named: str) -> None:
    path, _, function = named.partition("::")
    text = (ROOT / path).read_text()
    assert f"\ndef {function}(" in text or not function


@pytest.mark.parametrize("command", sorted(RUN_HERE))
def test_it_runs(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command in {known for _, known in everything()}
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(app, shlex.split(command)[1:])
    assert done.exit_code == 0, done.output


def test_make_help_names_every_verb() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {line.split()[0] for line in done.stdout.splitlines()} >= VERBS.keys()


def test_the_configuration_of_the_first_page_is_the_file_that_it_names() -> None:
    (shown,) = (block.text for block in blocks("README.md") if block.language == "yaml")
    assert yaml.safe_load(shown) == yaml.safe_load((ROOT / "config/orders.yaml").read_text())


def test_the_configuration_to_begin_with_is_right(tmp_path: Path) -> None:
    (shown,) = (block.text for block in blocks("docs/getting-started.md") if block.language == "yaml")
    file = tmp_path / "mesh.yaml"
    file.write_text(shown)
    assert [cluster.name for cluster in load(file).clusters] == ["eu", "us"]

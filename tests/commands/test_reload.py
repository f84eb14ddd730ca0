"""`kafka-mesh reload` against an HTTP server that answers as a mesh does, or otherwise."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from mesh.cli import app
from tests.commands.test_drain import answering

APPLIED: dict[str, Any] = {"file": "/etc/mesh.yaml", "hash": "abc", "state": "applied", "problems": []}


def test_it_prints_what_has_changed() -> None:
    with answering([{**APPLIED, "changes": ["cluster us: added"]}]) as (url, asked):
        done = CliRunner().invoke(app, ["reload", "--url", url])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "/etc/mesh.yaml applied, hash abc\n  cluster us: added\n"
    assert asked == [("POST", "/reload")]


def test_it_says_so_if_nothing_has_changed() -> None:
    with answering([{**APPLIED, "changes": []}]) as (url, _):
        done = CliRunner().invoke(app, ["reload", "--url", url])
    assert done.stdout.splitlines()[1:] == ["  nothing has changed"]


def test_what_is_refused_is_listed_as_at_a_start() -> None:
    refused = {**APPLIED, "state": "refused", "problem": "a; b", "problems": ["process_id: a", "budget: b"]}
    with answering([refused], 422) as (url, _):
        done = CliRunner().invoke(app, ["reload", "--url", url])
    assert (done.exit_code, done.stdout) == (2, "")
    assert (
        done.stderr
        == "kafka-mesh: 2 mistakes in /etc/mesh.yaml (key: value: what is allowed)\n  process_id: a\n  budget: b\n"
    )


def test_a_refused_caller_is_told_why() -> None:
    with answering([{"problem": "the admin address has no token"}], 403) as (url, _):
        done = CliRunner().invoke(app, ["reload", "--url", url])
    assert (done.exit_code, done.stderr) == (1, "kafka-mesh: the admin address has no token\n")


def test_what_is_no_mesh_is_told_so() -> None:
    with answering([{"something": "else"}]) as (url, _):
        done = CliRunner().invoke(app, ["reload", "--url", url])
    assert (done.exit_code, done.stderr) == (1, "kafka-mesh: not a kafka-mesh admin address\n")

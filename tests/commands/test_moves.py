"""The output of `kafka-mesh move`."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from mesh.cli import app
from mesh.commands.moves import format_cancelled, format_list, format_started

BEGUN: dict[str, Any] = {
    "virtual_cluster": "all",
    "topic": "orders",
    "from": "eu",
    "to": "us",
    "partitions": 3,
    "records": 400,
    "filled": 0,
    "groups": ["billing", "fraud"],
    "dry_run": False,
}
MOVE: dict[str, Any] = {
    "virtual_cluster": "all",
    "topic": "orders",
    "at": "eu",
    "other": "us",
    "state": "copying",
    "left": 300,
    "per_second": 100,
    "carried": 0,
    "problem": "",
}


def test_what_was_begun_and_cancelled() -> None:
    assert format_started(BEGUN).splitlines() == [
        "moving orders from eu to us: 3 partitions, 400 records",
        "  groups whose offsets move along: billing, fraud",
    ]
    dry = format_started({**BEGUN, "dry_run": True, "filled": 7, "partitions": 1, "groups": []}).splitlines()
    assert dry == [
        "dry run: would move orders from eu to us: 1 partition, 400 records",
        "  7 offsets in front of the first records are filled, and deleted",
        "  groups whose offsets move along: none",
    ]
    assert format_cancelled({"topic": "orders", "stays": "eu"}) == "orders stays at eu"


def test_lines() -> None:
    moved = {**MOVE, "at": "us", "other": "eu", "state": "moved", "left": None, "per_second": None, "carried": 1}
    failed = {**MOVE, "state": "given up", "left": None, "problem": "gap: offsets 3 to 4 have no records"}
    assert format_list({"moves": [MOVE, moved, failed]}).splitlines() == [
        "orders of all is at eu: copying to us, 300 records left, 100 a second",
        "orders of all is at us: moved, the other side is eu, 1 offset of groups not committed again yet",
        "orders of all is at eu: given up (gap: offsets 3 to 4 have no records)",
    ]
    assert format_list({"moves": []}) == "no topic is moved, or was"


def test_wrong_usage() -> None:
    assert CliRunner().invoke(app, ["move", "start", "--url", "http://127.0.0.1:1"]).exit_code == 2
    result = CliRunner().invoke(app, ["move", "list", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "no answer at" in result.output

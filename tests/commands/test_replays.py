"""The output of `kafka-mesh replay`."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from mesh.cli import app
from mesh.commands.replays import format_cancelled, format_details, format_list, format_started

REPLAY: dict[str, Any] = {
    "virtual_cluster": "shop",
    "group": "billing",
    "replay": "1f2e3d4c",
    "state": "running",
    "begun": 1_795_600_800_000,
    "rate": 100,
    "key": "k-1",
    "headers": {"region": "eu"},
    "offsets": 400,
    "left": 300,
    "delivered_and_not_acknowledged": 20,
    "partitions": [{"partition": "eu/orders-0", "first": 10, "last": 409, "offsets": 400, "left": 300}],
}


def test_lines() -> None:
    head = "1f2e3d4c of group billing at shop: running, 100 of 400 offsets done (25 %), 100 a second, "
    line = head + "of key k-1 and header region=eu, begun 2026-11-25T10:00:00+00:00"
    assert format_list({"replays": [REPLAY]}) == line
    assert format_details(REPLAY) == f"{line}\n  eu/orders-0@10-409: 300 of 400 left"
    assert format_list({"replays": []}) == "no unfinished replay in this process"
    plain = {**REPLAY, "rate": None, "key": None, "headers": {}, "offsets": 1, "left": 0}
    assert "1 of 1 offset done (100 %), begun" in format_list({"replays": [plain]})


def test_what_was_begun_and_cancelled() -> None:
    answer = {**REPLAY, "dry_run": False, "elsewhere": []}
    assert format_started(answer).splitlines() == [
        "replay 1f2e3d4c: 400 offsets again to group billing",
        "  eu/orders-0@10-409: 300 of 400 left",
    ]
    dry = format_started({**answer, "dry_run": True, "elsewhere": ["eu/orders-1"]}).splitlines()
    assert dry[0] == "dry run: would deliver 400 offsets again to group billing"
    assert dry[-1] == "not assigned to this process, ask the others: eu/orders-1"
    assert format_cancelled(REPLAY) == (
        "replay 1f2e3d4c is cancelled: 300 offsets were left; members may have up to 20 offsets of them"
    )
    assert format_cancelled({**REPLAY, "delivered_and_not_acknowledged": 0}).endswith("300 offsets were left")


def test_wrong_usage_is_told_before_anything_is_asked() -> None:
    wrong = ["--group", "billing", "--partition", "orders@1", "--url", "http://127.0.0.1:1"]
    for words in (["replay", *wrong], ["replay", "start", *wrong]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 2, result.output
        assert "--partition: orders@1: CLUSTER/TOPIC-NUMBER@OFFSET or @FIRST-LAST" in result.output
    assert CliRunner().invoke(app, ["replay", "--group", "billing"]).exit_code == 2
    result = CliRunner().invoke(app, ["replay", "list", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "no answer at" in result.output

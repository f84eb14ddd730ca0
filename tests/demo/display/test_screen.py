"""The screen, as text."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from mesh.demo.display.rows import MemberRow, TopicRow
from mesh.demo.display.screen import Scene, screen
from mesh.demo.display.story import StoryEvent
from mesh.demo.processes.snapshot import TopicSnapshot
from mesh.demo.stage import GROUP, StageState
from tests.demo.snapshots import member

ATTACHING = ("kcat -b 127.0.0.1:1 -G demo orders", "", "from confluent_kafka import Consumer", "two", "three")
ROWS = (
    MemberRow("fast-1", GROUP, StageState.RUNNING, member("a", 12_345, 40, 7, reason="no backlog"), 0.7),
    MemberRow("slow", GROUP, StageState.FROZEN, member("b", 500, 100, committed=None), 0.3),
    MemberRow("fast-2", GROUP, StageState.RUNNING, None, None),
)
TOPICS = (
    TopicRow(TopicSnapshot("orders", {"eu": 7_000, "us": 6_000}, 12_845, 155), {"eu": 200.4, "us": 199.6}, 398.0),
)
EVENTS = tuple(StoryEvent(100.0 + number, f"event {number}") for number in range(60))


def shown(
    members: Sequence[MemberRow] = ROWS, width: int = 110, height: int = 40, chosen: str | None = "slow"
) -> list[str]:
    scene = Scene(65.0, "127.0.0.1:1", 13_000, members, TOPICS, EVENTS, 100.0, chosen, ATTACHING, "a note")
    console = Console(width=width, height=height, file=io.StringIO(), record=True)
    console.print(screen(scene, height))
    return console.export_text().splitlines()


def line(lines: list[str], beginning: str) -> str:
    (found,) = (each for each in lines if each.strip().startswith(beginning))
    return " ".join(found.split())


def test_everything_there_is() -> None:
    lines = shown()
    assert "1:05 13,000 records fed to two clusters, one address: 127.0.0.1:1 a note" in line(lines, "kafka-mesh")
    assert line(lines, "1") == "1 fast-1 running 12,345 ████░░ 70% 40 0.5 s 7"
    assert line(lines, "▸2") == "▸2 slow frozen 500 ██░░░░ 30% 100 never 0"
    assert line(lines, "3") == "3 fast-2 joins"
    assert line(lines, "orders") == "orders 13,000 400 12,845 398 155"
    assert line(lines, "from eu") == "from eu 7,000 200"
    assert any("event 59" in each for each in lines)
    assert any("from confluent_kafka import Consumer" in each for each in lines)
    assert "kill -9" in lines[-1]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (110, 40), (200, 60), (60, 20)])
def test_it_fits(width: int, height: int) -> None:
    lines = shown(width=width, height=height)
    assert len(lines) <= height
    assert all(len(each) <= width for each in lines)
    assert any("kcat -b 127.0.0.1:1" in each for each in lines)
    assert any("event 59" in each for each in lines)


def test_a_usual_terminal_shows_every_column() -> None:
    heading = shown(width=80, height=24)[2].split()
    assert heading == ["member", "records", "share", "in", "flight", "last", "commit", "redelivered"]


def test_groups_are_told_apart_where_there_are_several() -> None:
    mine = MemberRow("rdkafka", "mine", None, member("z", 9, group="mine"), 1.0)
    assert line(shown([*ROWS, mine]), "4").startswith("4 rdkafka mine yours 9")


def test_why_a_member_gets_nothing_where_that_says_something() -> None:
    at_cap = MemberRow("slow", GROUP, StageState.RUNNING, member("b", reason="at its cap; no backlog"), None)
    assert "at its cap" in line(shown([at_cap]), "▸1")
    usual = MemberRow(
        "slow", GROUP, StageState.RUNNING, member("b", reason="no backlog; records are on their way"), None
    )
    assert "running" in line(shown([usual]), "▸1")


def test_names_of_clients_do_not_talk_to_the_terminal() -> None:
    evil = MemberRow("evil\x1b[2J[red]", GROUP, None, member("z"), None)
    text = "\n".join(shown([evil]))
    assert "\x1b" not in text
    assert "[red]" in text

"""The live demo as one screen: members, topics, events, keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from mesh.demo.display.rows import MemberRow, TopicRow
from mesh.demo.display.story import StoryEvent
from mesh.demo.stage import GROUP, StageState

_BAR = 6
_STYLES = {StageState.RUNNING: "green", StageState.FROZEN: "cyan", StageState.KILLED: "red"}
_USUAL = frozenset({"no backlog", "records are on their way", "has not fetched yet", "does not fetch"})
"""Ordinary reasons why a member gets nothing; the screen leaves them out."""
_KEYS = (("a", "add"), ("f", "freeze"), ("t", "thaw"), ("k", "kill -9"), ("↑↓ 1-9", "choose"), ("q", "end and count"))


@dataclass(frozen=True, slots=True)
class Scene:
    """The content of the screen. seconds: since the start. chosen: the consumer on which keys act. attaching: how to
    join in. begin: the start on the clock of the events. note: an unusual state."""

    seconds: float
    address: str
    fed: int
    members: Sequence[MemberRow]
    topics: Sequence[TopicRow]
    events: Sequence[StoryEvent]
    begin: float
    chosen: str | None
    attaching: Sequence[str]
    note: str = ""


def screen(scene: Scene, height: int) -> RenderableType:
    """Returns the screen in at most `height` lines. In a small terminal only the latest events fit, and no Python."""
    attaching = scene.attaching if height >= _size(scene) + len(scene.attaching) + 6 else scene.attaching[:1]
    room = max(height - _size(scene) - len(attaching), 3)
    return Group(
        _title(scene),
        Text(),
        _members(scene),
        Text(),
        _topics(scene),
        Rule("what happened", style="dim", align="left"),
        *_events(scene, room),
        Rule(f"your own consumer gets a row, and its share of the group {GROUP}", style="dim", align="left"),
        *(Padding(Text(line, "yellow", no_wrap=True, overflow="ellipsis"), (0, 0, 0, 2)) for line in attaching),
        _keys(),
    )


def _size(scene: Scene) -> int:
    """Returns the number of lines without the events and the user's own consumer."""
    topics = sum(1 + len(row.topic.received) for row in scene.topics)
    return 1 + 1 + (1 + len(scene.members)) + 1 + (1 + topics) + 1 + 1 + 1


def _title(scene: Scene) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("kafka-mesh", "bold")
    text.append(f"  {_clock(scene.seconds)}  {scene.fed:,} records fed to two clusters, one address: {scene.address}")
    if scene.note:
        text.append(f"  {scene.note}", "bold yellow")
    return text


def _members(scene: Scene) -> Table:
    groups = {row.group for row in scene.members}
    columns = ["", "member", *(["group"] if len(groups) > 1 else []), "", "records", "share", "in flight"]
    table = _table([*columns, "last commit", "redelivered"], {"records", "in flight", "last commit", "redelivered"})
    for number, row in enumerate(scene.members, 1):
        is_chosen = row.state is not None and row.name == scene.chosen
        table.add_row(
            Text(f"{'▸' if is_chosen else ' '}{number}", no_wrap=True),
            _cut(row.name, "bold" if is_chosen else ""),
            *([_cut(row.group)] if len(groups) > 1 else []),
            _state(row),
            *_numbers(row),
        )
    return table


def _numbers(row: MemberRow) -> list[str | Text]:
    if (member := row.member) is None:
        return []
    held, again = _count(member.held), _count(member.redelivered)
    return [_count(member.delivered), _share(row.share), held, _ago(member.committed), again]


def _state(row: MemberRow) -> Text:
    if row.state is None:
        return Text("yours", "magenta")
    if row.member is None:
        return Text("joins" if row.state is StageState.RUNNING else f"{row.state.value}, out", "dim")
    reason = row.member.reason
    if row.state is StageState.RUNNING and reason is not None and not _USUAL.issuperset(reason.split("; ")):
        return _cut(reason, "yellow")
    return _cut(row.state.value, _STYLES[row.state])


def _topics(scene: Scene) -> Table:
    table = _table(["topic", "in", "in/s", "out", "out/s", "backlog"], {"in", "in/s", "out", "out/s", "backlog"})
    for row in scene.topics:
        received = sum(row.topic.received.values())
        rate = sum(row.received_rates.values())
        table.add_row(
            Text(_plain(row.topic.name), "bold"),
            _count(received),
            f"{rate:,.0f}",
            _count(row.topic.delivered),
            f"{row.delivered_rate:,.0f}",
            _count(row.topic.backlog),
        )
        for cluster, count in row.topic.received.items():
            table.add_row(f"  from {cluster}", _count(count), f"{row.received_rates[cluster]:,.0f}", "", "", "")
    return table


def _events(scene: Scene, room: int) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for event in list(scene.events)[-room:]:
        line = Text(f"  {_clock(event.at - scene.begin)}  ", "dim", no_wrap=True, overflow="ellipsis")
        line.append(_plain(event.text), "default not dim")
        lines.append(line)
    return [*lines, *(Text() for _ in range(room - len(lines)))]


def _keys() -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for key, meaning in _KEYS:
        text.append(f" {key} ", "reverse")
        text.append(f" {meaning}  ")
    return text


def _table(columns: list[str], numeric: set[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        # In a narrow terminal names and reasons are cut; numbers are not.
        gives_way = column in {"", "member", "group"}
        table.add_column(column, justify="right" if column in numeric else "left", no_wrap=not gives_way, max_width=20)
    return table


def _cut(text: str, style: str = "") -> Text:
    return Text(_plain(text), style, no_wrap=True, overflow="ellipsis")


def _share(share: float | None) -> Text:
    if share is None:
        return Text("")
    full = round(share * _BAR)
    return Text.assemble(("█" * full, "green"), ("░" * (_BAR - full), "dim"), f" {share:>4.0%}")


def _count(value: int) -> str:
    return f"{value:,}"


def _ago(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f} s"


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02}"


def _plain(text: str) -> str:
    """Returns a name without control characters. Clients choose their names: these must not control the terminal."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()

"""A topology as a picture (SVG): each subtopology is a frame, and records go downwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias, assert_never

from mesh.streams.description import Node, ProcessorNode, SinkNode, SourceNode, TopologyDescription

MOST_NODES: Final = 500
"""The most nodes of a picture. A larger one is of no use; the flowchart as text has all nodes."""
_WIDTH, _HEIGHT, _GAP, _ROW, _MARGIN, _TITLE = 190, 34, 24, 76, 16, 30
_LONGEST: Final = 26
_Key: TypeAlias = tuple[str, str]
"""The kind of a box (node, topic or store), and its name."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A frame. boxes: their kinds and names. lines: each leads from one box to another."""

    title: str
    boxes: Sequence[_Key]
    lines: Sequence[tuple[_Key, _Key]]


def svg(description: TopologyDescription) -> str:
    """Returns a picture of a description in SVG. A browser that shows it fetches and runs nothing."""
    count = sum(len(each.nodes) for each in description.subtopologies) + 2 * len(description.global_stores)
    if count > MOST_NODES:
        return _document(420, 40, [_text(210, 25, f"more than {MOST_NODES} nodes")])
    parts = [_part(f"Subtopology {each.id}", each.nodes) for each in description.subtopologies]
    parts += [_part("Global store", (each.source, each.processor)) for each in description.global_stores]
    drawn: list[str] = []
    top, width = 0, 0
    for part in parts:
        rows = _rows(part)
        wide = max((len(row) for row in rows), default=1) * (_WIDTH + _GAP) + _GAP
        height = _TITLE + len(rows) * _ROW + _MARGIN
        drawn += _drawn(part, rows, wide, height, top)
        top, width = top + height + _MARGIN, max(width, wide)
    return _document(width + 2 * _MARGIN, top + _MARGIN, drawn)


def _part(title: str, nodes: Sequence[Node]) -> _Part:
    boxes: dict[_Key, None] = {}
    lines: list[tuple[_Key, _Key]] = []

    def connect(one: _Key, other: _Key) -> None:
        boxes.setdefault(one)
        boxes.setdefault(other)
        lines.append((one, other))

    for node in nodes:
        box = ("node", node.name)
        match node:
            case SourceNode(topics=topics):
                for topic in topics:
                    connect(("topic", topic), box)
            case ProcessorNode(stores=stores):
                for store in stores:
                    connect(box, ("store", store))
            case SinkNode(topic=topic):
                if topic is not None:
                    connect(box, ("topic ", topic))  # a topic that this part writes, and does not read
            case _:
                assert_never(node)
        boxes.setdefault(box)
        for successor in node.successors:
            connect(box, ("node", successor))
    return _Part(title, list(boxes), lines)


def _rows(part: _Part) -> list[list[_Key]]:
    """The rows of a frame: every box is below all boxes that lead to it. No topology has a circle; one would end
    somewhere."""
    depth: dict[_Key, int] = dict.fromkeys(part.boxes, 0)
    for _ in part.boxes:
        is_settled = True
        for one, other in part.lines:
            if depth[other] <= depth[one] < len(part.boxes):
                depth[other], is_settled = depth[one] + 1, False
        if is_settled:
            break
    used = sorted(set(depth.values()))
    return [[box for box in part.boxes if depth[box] == row] for row in used]


def _drawn(part: _Part, rows: Sequence[Sequence[_Key]], width: int, height: int, top: int) -> Iterator[str]:
    yield f'<rect class="part" x="{_MARGIN}" y="{top + _MARGIN}" width="{width}" height="{height - _MARGIN}" rx="6"/>'
    yield _text(_MARGIN + width // 2, top + _MARGIN + 20, part.title, "title")
    places = {
        box: (_MARGIN + _GAP + column * (_WIDTH + _GAP), top + _MARGIN + _TITLE + row * _ROW)
        for row, boxes in enumerate(rows)
        for column, box in enumerate(boxes)
    }
    yield from _lines(part, places)
    for (kind, name), (x, y) in places.items():
        round_by = {"topic": 17, "topic ": 17, "store": 0}.get(kind, 5)
        where = f'x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="{round_by}"'
        yield f'<g><title>{_safe(name)}</title><rect class="{kind.strip()}" {where}/>'
        yield _text(x + _WIDTH // 2, y + 22, name) + "</g>"


def _lines(part: _Part, places: Mapping[_Key, tuple[int, int]]) -> Iterator[str]:
    for one, other in part.lines:
        (x1, y1), (x2, y2) = places[one], places[other]
        half = _WIDTH // 2
        style = "uses" if other[0] == "store" else "leads"
        yield f'<line class="{style}" x1="{x1 + half}" y1="{y1 + _HEIGHT}" x2="{x2 + half}" y2="{y2}"/>'


def _text(x: int, y: int, text: str, style: str = "name") -> str:
    shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f'<text class="{style}" x="{x}" y="{y}">{_safe(shown)}</text>'


def _safe(text: str) -> str:
    """Escapes a text for XML, which cannot contain most control characters."""
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


_STYLE: Final = (
    "text{font:13px sans-serif;text-anchor:middle;fill:#222}.title{font-weight:bold}rect{fill:#fff;stroke:#456}"
    ".part{fill:#f4f6f8;stroke:#ccd}.topic{fill:#e6f0e0}.store{fill:#fdf1d8}line{stroke:#456;marker-end:url(#a)}"
    ".uses{stroke-dasharray:4 3;marker-end:none}"
)
_ARROW: Final = (
    '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#456"/></marker></defs>'
)


def _document(width: int, height: int, drawn: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    return "".join([head, f"<style>{_STYLE}</style>", _ARROW, *drawn, "</svg>"])

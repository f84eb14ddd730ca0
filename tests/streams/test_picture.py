"""A topology as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from hypothesis import given

from mesh.streams.description import ProcessorNode, SinkNode, SourceNode, Subtopology, TopologyDescription
from mesh.streams.picture import MOST_NODES, svg
from tests.streams.strategies import DESCRIPTIONS

SVG = "{http://www.w3.org/2000/svg}"
WORDS = Subtopology(
    "0",
    (
        SourceNode("read", ("lines",), ("split",)),
        ProcessorNode("split", (), ("count",)),
        ProcessorNode("count", ("counts",), ("write",)),
        SinkNode("write", "words"),
    ),
)


def texts(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


@given(DESCRIPTIONS)
def test_whatever_the_names_are_it_is_xml_without_scripts(description: TopologyDescription) -> None:
    root = ElementTree.fromstring(svg(description))
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
        *("svg", "style", "defs", "marker", "path", "rect", "line", "text", "title", "g")
    }
    assert not [name for each in root.iter() for name in each.attrib if name.startswith("on") or "href" in name]


def test_records_go_downwards_past_every_node_topic_and_store() -> None:
    picture = svg(TopologyDescription((WORDS,)))
    assert set(texts(picture)) == {"Subtopology 0", "lines", "read", "split", "count", "counts", "write", "words"}
    lines = list(ElementTree.fromstring(picture).iter(f"{SVG}line"))
    assert len(lines) == 6
    assert all(int(each.attrib["y1"]) < int(each.attrib["y2"]) for each in lines)


def test_a_circle_is_drawn_all_the_same() -> None:
    circle = Subtopology("0", (ProcessorNode("a", (), ("b",)), ProcessorNode("b", (), ("a",))))
    assert {"a", "b"} <= set(texts(svg(TopologyDescription((circle,)))))


def test_one_that_is_too_large_is_said_to_be() -> None:
    many = tuple(ProcessorNode(str(number)) for number in range(MOST_NODES + 1))
    assert texts(svg(TopologyDescription((Subtopology("0", many),)))) == ["more than 500 nodes"]

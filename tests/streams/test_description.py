"""Topology descriptions as trees, and as a picture."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given

from mesh.streams.description import (
    LONGEST_NAME,
    MOST_NODES,
    InvalidDescription,
    ProcessorNode,
    SinkNode,
    SourceNode,
    Subtopology,
    TopologyDescription,
    description_of,
    mermaid,
    tree_of,
)
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.trees import read_tree, write_tree
from tests.streams.strategies import DESCRIPTIONS

API = ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE


def node(**given: Any) -> dict[str, Any]:
    return {
        "name": "n",
        "node_type": 2,
        "source_topics": [],
        "sink_topic": None,
        "stores": [],
        "successors": [],
    } | given


def tree(*nodes: dict[str, Any], global_stores: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"subtopologies": [{"subtopology_id": "0", "nodes": list(nodes)}], "global_stores": global_stores or []}


@given(DESCRIPTIONS)
def test_a_description_is_read_as_it_was_written(description: TopologyDescription) -> None:
    assert description_of(tree_of(description)) == description
    assert description_of(json.loads(json.dumps(tree_of(description)))) == description


@given(DESCRIPTIONS)
def test_it_passes_over_the_wire(description: TopologyDescription) -> None:
    written = {"group_id": "g", "member_id": "m", "topology_epoch": 1, "topology_description": tree_of(description)}
    read = read_tree(API, 0, Direction.REQUEST, write_tree(API, 0, Direction.REQUEST, written))
    assert description_of(read["topology_description"]) == description


def test_the_order_is_kept_and_a_name_stands_once() -> None:
    described = description_of(tree(node(stores=["z", "a", "z"], successors=["y", "x", "y"])))
    assert described.subtopologies[0].nodes == (ProcessorNode("n", ("z", "a"), ("y", "x")),)


def test_what_a_node_of_its_kind_has_not_is_left_out() -> None:
    everything = {"source_topics": ["t"], "sink_topic": "s", "stores": ["k"]}
    nodes = [node(node_type=number, **everything) for number in (1, 2, 3)]
    read = description_of(tree(*nodes)).subtopologies[0].nodes
    assert read == (SourceNode("n", ("t",)), ProcessorNode("n", ("k",)), SinkNode("n", "s"))


@pytest.mark.parametrize("number", [0, 4, -1, 127])
def test_other_types_of_nodes_are_refused(number: int) -> None:
    with pytest.raises(InvalidDescription, match=f"^Unknown topology node type: {number}$"):
        description_of(tree(node(node_type=number)))


@pytest.mark.parametrize(("source", "processor"), [(2, 2), (1, 1), (3, 2), (1, 3), (2, 1)])
def test_a_global_store_is_a_source_and_a_processor(source: int, processor: int) -> None:
    store = {"source": node(node_type=source), "processor": node(node_type=processor)}
    with pytest.raises(InvalidDescription, match=r"^Global store must be composed of a source and a processor node\.$"):
        description_of(tree(global_stores=[store]))


def test_there_are_bounds() -> None:
    description_of(tree(*[node()] * MOST_NODES))
    with pytest.raises(InvalidDescription, match="More than"):
        description_of(tree(*[node()] * (MOST_NODES + 1)))
    description_of(tree(node(name="x" * LONGEST_NAME)))
    for long in (node(name="x" * (LONGEST_NAME + 1)), node(successors=["x" * (LONGEST_NAME + 1)])):
        with pytest.raises(InvalidDescription, match="characters"):
            description_of(tree(long))


def test_a_picture_has_every_node_topic_and_store() -> None:
    described = description_of(
        tree(
            node(name="in", node_type=1, source_topics=["orders"], successors=["count"]),
            node(name="count", node_type=2, stores=["counts"], successors=["out"]),
            node(name="out", node_type=3, sink_topic="results"),
            global_stores=[{"source": node(name="g", node_type=1), "processor": node(name="p")}],
        )
    )
    assert (
        mermaid(described)
        == """flowchart TD
  subgraph n0["Subtopology 0"]
    n1[/"in"\\]
    n2["count"]
    n3[\\"out"/]
  end
  n1 --> n2
  n4[("orders")] --> n1
  n2 --> n3
  n2 --- n5[/"counts"/]
  n3 --> n6[("results")]
  subgraph n7["Global store"]
    n8[/"g"\\]
    n9["p"]
  end
"""
    )


@given(DESCRIPTIONS)
def test_no_name_is_markup(description: TopologyDescription) -> None:
    for label in re.findall(r'"([^"]*)"', mermaid(description)):
        assert re.fullmatch(r"(?:[\w ._:-]|#\d+;)*", label)
    ids = re.compile(r"n\d+")
    assert all(
        ids.match(line.strip().removeprefix("subgraph ")) or line.strip() in ("end", "flowchart TD")
        for line in mermaid(description).splitlines()
    )


def test_nodes_of_one_name_in_two_subtopologies_are_two() -> None:
    parts = (Subtopology("0", (SourceNode("a"),)), Subtopology("1", (SourceNode("a"),)))
    assert mermaid(TopologyDescription(parts)).count('[/"a"\\]') == 2

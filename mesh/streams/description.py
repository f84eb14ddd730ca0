"""A topology as Kafka Streams describes it: as values, as trees of the wire, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

SOURCE, PROCESSOR, SINK = 1, 2, 3
MOST_NODES: Final = 20_000
LONGEST_NAME: Final = 32 << 10
"""The most characters of a name."""


class InvalidDescription(ValueError):
    """Raised for an invalid description. The message is that of a broker."""


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A node that reads topics. topics, successors: each name once, in the order of the application."""

    name: str
    topics: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessorNode:
    """A node that processes records, with the stores that it uses."""

    name: str
    stores: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkNode:
    """A node that writes to a topic. topic: None if each record has its own topic."""

    name: str
    topic: str | None = None
    successors: tuple[str, ...] = ()


Node: TypeAlias = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of a topology: nodes that are connected, and so run in the same tasks."""

    id: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class GlobalStore:
    """A store of which every instance has all records."""

    source: SourceNode
    processor: ProcessorNode


@dataclass(frozen=True, slots=True)
class TopologyDescription:
    """A whole topology."""

    subtopologies: tuple[Subtopology, ...] = ()
    global_stores: tuple[GlobalStore, ...] = ()


# From trees, of the wire or of JSON: the names are the same


def description_of(tree: Mapping[str, Any]) -> TopologyDescription:
    """Reads a description from a tree. Raises InvalidDescription."""
    budget = _Budget()
    subtopologies = [
        Subtopology(budget.name(each["subtopology_id"]), tuple(map(budget.node, each["nodes"])))
        for each in tree["subtopologies"]
    ]
    return TopologyDescription(tuple(subtopologies), tuple(map(budget.global_store, tree["global_stores"])))


class _Budget:
    """Counts the nodes of a description against the limits, while it is read."""

    def __init__(self) -> None:
        self._nodes = MOST_NODES

    def name(self, name: str) -> str:
        if len(name) > LONGEST_NAME:
            raise InvalidDescription(f"A name of {len(name)} characters; up to {LONGEST_NAME} are allowed.")
        return name

    def names(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(self.name, names)))

    def node(self, tree: Mapping[str, Any]) -> Node:
        self._nodes -= 1
        if self._nodes < 0:
            raise InvalidDescription(f"More than {MOST_NODES} nodes.")
        name, successors = self.name(tree["name"]), self.names(tree["successors"])
        match tree["node_type"]:
            case 1:
                return SourceNode(name, self.names(tree["source_topics"]), successors)
            case 2:
                return ProcessorNode(name, self.names(tree["stores"]), successors)
            case 3:
                topic = tree["sink_topic"]
                return SinkNode(name, None if topic is None else self.name(topic), successors)
            case other:
                raise InvalidDescription(f"Unknown topology node type: {other}")

    def global_store(self, tree: Mapping[str, Any]) -> GlobalStore:
        source, processor = self.node(tree["source"]), self.node(tree["processor"])
        if not isinstance(source, SourceNode) or not isinstance(processor, ProcessorNode):
            raise InvalidDescription("Global store must be composed of a source and a processor node.")
        return GlobalStore(source, processor)


# To trees


def tree_of(description: TopologyDescription) -> dict[str, Any]:
    """Returns the tree of a description: the inverse of `description_of`."""
    return {
        "subtopologies": [
            {"subtopology_id": each.id, "nodes": list(map(_node_tree, each.nodes))}
            for each in description.subtopologies
        ],
        "global_stores": [
            {"source": _node_tree(each.source), "processor": _node_tree(each.processor)}
            for each in description.global_stores
        ],
    }


def _node_tree(node: Node) -> dict[str, Any]:
    tree: dict[str, Any] = {"name": node.name, "successors": list(node.successors)}
    tree |= {"source_topics": [], "sink_topic": None, "stores": []}
    match node:
        case SourceNode(topics=topics):
            return tree | {"node_type": SOURCE, "source_topics": list(topics)}
        case ProcessorNode(stores=stores):
            return tree | {"node_type": PROCESSOR, "stores": list(stores)}
        case SinkNode(topic=topic):
            return tree | {"node_type": SINK, "sink_topic": topic}
        case _:
            assert_never(node)


# As a picture


def mermaid(description: TopologyDescription) -> str:
    """Returns a flowchart of a description in the language of Mermaid."""
    return "\n".join(["flowchart TD", *_Picture().lines(description)]) + "\n"


class _Picture:
    """A flowchart. Names of nodes may have any characters, so they are labels, and numbers stand for them in the
    text."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str, str], str] = {}

    def lines(self, description: TopologyDescription) -> Iterator[str]:
        for each in description.subtopologies:
            yield from self._part(f"Subtopology {each.id}", each.id, each.nodes)
        for number, store in enumerate(description.global_stores):
            yield from self._part("Global store", f"global {number}", (store.source, store.processor))

    def _part(self, title: str, part: str, nodes: Sequence[Node]) -> Iterator[str]:
        yield f"  subgraph {self._id('part', part, '')}[{_label(title)}]"
        for node in nodes:
            yield f"    {self._id('node', part, node.name)}{_shape(node)}"
        yield "  end"
        for node in nodes:
            at = self._id("node", part, node.name)
            for successor in node.successors:
                yield f"  {at} --> {self._id('node', part, successor)}"
            match node:
                case SourceNode(topics=topics):
                    for topic in topics:
                        yield f"  {self._id('topic', '', topic)}[({_label(topic)})] --> {at}"
                case ProcessorNode(stores=stores):
                    for store in stores:
                        yield f"  {at} --- {self._id('store', part, store)}[/{_label(store)}/]"
                case SinkNode(topic=topic):
                    if topic is not None:
                        yield f"  {at} --> {self._id('topic', '', topic)}[({_label(topic)})]"
                case _:
                    assert_never(node)

    def _id(self, kind: str, part: str, name: str) -> str:
        return self._ids.setdefault((kind, part, name), f"n{len(self._ids)}")


def _shape(node: Node) -> str:
    match node:
        case SourceNode():
            return f"[/{_label(node.name)}\\]"
        case ProcessorNode():
            return f"[{_label(node.name)}]"
        case SinkNode():
            return f"[\\{_label(node.name)}/]"
        case _:
            assert_never(node)


def _label(text: str) -> str:
    """Returns a text as a label of Mermaid, in which nothing is markup."""
    return '"' + "".join(c if c.isalnum() or c in " ._-:" else f"#{ord(c)};" for c in text) + '"'

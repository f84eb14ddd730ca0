"""Topology descriptions of any shape."""

from __future__ import annotations

from hypothesis import strategies as st

from mesh.streams.description import (
    GlobalStore,
    ProcessorNode,
    SinkNode,
    SourceNode,
    Subtopology,
    TopologyDescription,
)

NAMES = st.text(max_size=6)
LISTS = st.lists(NAMES, unique=True, max_size=4).map(tuple)
SOURCES = st.builds(SourceNode, NAMES, LISTS, LISTS)
PROCESSORS = st.builds(ProcessorNode, NAMES, LISTS, LISTS)
SINKS = st.builds(SinkNode, NAMES, st.none() | NAMES, LISTS)
SUBTOPOLOGIES = st.builds(Subtopology, NAMES, st.lists(SOURCES | PROCESSORS | SINKS, max_size=4).map(tuple))
DESCRIPTIONS = st.builds(
    TopologyDescription,
    st.lists(SUBTOPOLOGIES, max_size=3).map(tuple),
    st.lists(st.builds(GlobalStore, SOURCES, PROCESSORS), max_size=2).map(tuple),
)

"""The positions of entities in Kafka's messages, and programs that translate them in a message that is passed on.

An entity is a thing of a cluster that a name or number in a message stands for: a node and its address, a topic, a
group, a producer. `layouts` makes the table of fields (`fields`, `kinds`) from kio's classes, from `supplement`, which
has what kio lacks, and from `classification`, which has what Kafka does not declare. `compiler` makes programs from the
table.
"""

from __future__ import annotations

from mesh.wire.entities.handler import EntityTranslator, Unchanged
from mesh.wire.entities.kinds import Direction
from mesh.wire.entities.program import Program, program, program_of_addresses, program_with_partitions

__all__ = [
    "Direction",
    "EntityTranslator",
    "Program",
    "Unchanged",
    "program",
    "program_of_addresses",
    "program_with_partitions",
]

"""Where entities stand in Kafka's messages, and how a message is passed on with others in their place.

An entity is what a name or a number in a message means to a cluster: a node and its address, a topic, a group, a
producer. `fields` and `kinds` are the table, made by `layouts` out of kio's classes, `supplement`, which has what these
lack, and `classification`, which has what Kafka does not declare. `compiler` makes programs of it.
"""

from __future__ import annotations

from mesh.wire.entities.handler import Entities, Unchanged
from mesh.wire.entities.kinds import Side
from mesh.wire.entities.program import Program, program, program_of_addresses

__all__ = ["Entities", "Program", "Side", "Unchanged", "program", "program_of_addresses"]

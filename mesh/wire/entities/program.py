"""The programs that pass a message on with other entities in it, one for each API, version and side.

They are made when they are first asked for, and kept: kio's modules, one for each message, take long to import.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.entities.compiler import ADDRESSES, ALL_KINDS, compiled
from mesh.wire.entities.handler import Entities
from mesh.wire.entities.kinds import Kind, Side
from mesh.wire.entities.layouts import layout
from mesh.wire.entities.steps import Step, Walk
from mesh.wire.messages import Buffer
from mesh.wire.relayed_apis import RELAYED_APIS


@dataclass(frozen=True, slots=True)
class Program:
    """What there is to do with a message of one API, version and side."""

    _step: Step

    def translate(self, frame: memoryview, start: int, to: Entities) -> list[Buffer]:
        """The frame with other entities in it: slices of it where nothing has changed, and what has.

        start: where the body begins in it; what is behind the body passes as it is. Raises ProtocolError for a body
        that does not fit, ValueError for an entity that is too long for Kafka.
        """
        walk = Walk(frame, start, to)
        self._step(walk)
        return walk.pieces()


@cache
def program(api_key: ApiKey, version: int, side: Side) -> Program:
    """Asks about every entity, and reads all of the body. Raises ValueError for a version that is not relayed."""
    return _made(api_key, version, side, ALL_KINDS, is_whole=True)


@cache
def program_of_addresses(api_key: ApiKey, version: int) -> Program:
    """Asks about the addresses in a response, and reads no further than the last of them."""
    return _made(api_key, version, Side.RESPONSE, ADDRESSES, is_whole=False)


def _made(api_key: ApiKey, version: int, side: Side, kinds: frozenset[Kind], is_whole: bool) -> Program:
    if api_key not in RELAYED_APIS or version not in RELAYED_APIS[api_key].all():
        raise ValueError(f"{api_key.name} v{version} is not relayed")
    return Program(compiled(layout(api_key, version, side), is_flexible(api_key, version), kinds, is_whole))

"""The programs that translate entities in a message that is passed on: one for each API, version and side.

A program is compiled when it is first needed, and cached. kio has one module for each message, and importing them all
takes long.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import Final

from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.entities.compiler import ADDRESSES, ALL_KINDS, WITHOUT_PARTITIONS, compiled
from mesh.wire.entities.handler import EntityTranslator
from mesh.wire.entities.kinds import Direction, EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.entities.steps import Step, Walk
from mesh.wire.messages import Buffer
from mesh.wire.relayed_apis import RELAYED_APIS
from mesh.wire.spans import MAX_REQUEST_ELEMENTS

_ANY_NUMBER: Final = sys.maxsize
"""The number of elements is not limited in answers, which come from a broker."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that translates the entities in a message of one API, version and side. _is_whole: whether it reads the
    whole body. _most_elements: the most array elements and tagged fields that it reads."""

    _step: Step
    _is_whole: bool
    _most_elements: int

    def translate(self, frame: memoryview, start: int, to: EntityTranslator) -> list[Buffer]:
        """Returns the frame with translated entities: slices of the frame where nothing has changed, and the changed
        bytes.

        A program that reads the whole body leaves out the bytes that it does not understand: unknown tagged fields, and
        bytes after the body. start: the position of the body. Raises ProtocolError for an invalid body, ValueError for
        an entity that is too long for Kafka.
        """
        walk = Walk(frame, start, to, self._most_elements)
        self._step(walk)
        if self._is_whole and walk.position < walk.end:
            walk.replace(walk.position, walk.end, b"")
        return walk.pieces()


@cache
def program(api_key: ApiKey, version: int, side: Direction) -> Program:
    """Returns the program that translates all entities except partitions and epochs, and reads the whole body. Raises
    ValueError for a version that is not relayed."""
    return _made(api_key, version, side, WITHOUT_PARTITIONS, is_whole=True)


@cache
def program_with_partitions(api_key: ApiKey, version: int, side: Direction) -> Program:
    """Returns the same program as `program`, except that it also translates partitions and epochs."""
    return _made(api_key, version, side, ALL_KINDS, is_whole=True)


@cache
def program_of_addresses(api_key: ApiKey, version: int) -> Program:
    """Returns the program that translates the addresses in a response, and reads no further than the last address."""
    return _made(api_key, version, Direction.RESPONSE, ADDRESSES, is_whole=False)


def _made(api_key: ApiKey, version: int, side: Direction, kinds: frozenset[EntityKind], is_whole: bool) -> Program:
    if api_key not in RELAYED_APIS or version not in RELAYED_APIS[api_key].all():
        raise ValueError(f"{api_key.name} v{version} is not relayed")
    step = compiled(layout(api_key, version, side), is_flexible(api_key, version), kinds, is_whole)
    return Program(step, is_whole, MAX_REQUEST_ELEMENTS if side is Direction.REQUEST else _ANY_NUMBER)

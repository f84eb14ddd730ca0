"""Answers of a leaf without what clients of its union do not see: hidden topics, groups whose home is another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import Kind
from mesh.wire.entities.layouts import layout
from mesh.wire.messages import Buffer
from mesh.wire.trees import Tree, read_tree, write_tree

IsShown: TypeAlias = Callable[[Kind, str], bool]
_NAMED: Final = frozenset({Kind.TOPIC, Kind.GROUP, Kind.TRANSACTIONAL_ID})


def without_hidden(api_key: ApiKey, version: int, body: Buffer, is_shown: IsShown) -> bytes:
    """The body of an answer, in which elements of arrays are left out that are, or are about, something hidden.

    is_shown: whether clients see a topic, a group or a transaction of this leaf. Raises ProtocolError.
    """
    answer = read_tree(api_key, version, Side.RESPONSE, body)
    _leave_out(layout(api_key, version, Side.RESPONSE), answer, is_shown)
    return write_tree(api_key, version, Side.RESPONSE, answer)


def _leave_out(fields: Sequence[Field], tree: Tree, is_shown: IsShown) -> None:
    for field in fields:
        value = tree.get(field.name)
        if not value:
            continue
        if field.is_array:
            tree[field.name] = [each for each in value if _is_shown(field, each, is_shown)]
        if field.fields:
            for each in tree[field.name] if field.is_array else [value]:
                _leave_out(field.fields, each, is_shown)


def _is_shown(field: Field, element: Any, is_shown: IsShown) -> bool:
    if not field.fields:
        return field.kind is None or field.kind not in _NAMED or is_shown(field.kind, element)
    named = [each for each in field.fields if each.kind in _NAMED and not each.is_array]
    return all(
        is_shown(each.kind, element[each.name])
        for each in named
        if each.kind is not None and element[each.name] is not None
    )

"""Answers of a leaf without the topics that clients of its union do not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Side
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import Kind
from mesh.wire.entities.layouts import layout
from mesh.wire.messages import Buffer
from mesh.wire.trees import Tree, read_tree, write_tree


def without_hidden(api_key: ApiKey, version: int, body: Buffer, is_shown: Callable[[str], bool]) -> bytes:
    """The body of an answer, in which elements of arrays are left out that are, or are about, a hidden topic.

    is_shown: whether clients see a topic of this leaf. Raises ProtocolError.
    """
    answer = read_tree(api_key, version, Side.RESPONSE, body)
    _leave_out(layout(api_key, version, Side.RESPONSE), answer, is_shown)
    return write_tree(api_key, version, Side.RESPONSE, answer)


def _leave_out(fields: Sequence[Field], tree: Tree, is_shown: Callable[[str], bool]) -> None:
    for field in fields:
        value = tree.get(field.name)
        if not value:
            continue
        if field.is_array:
            tree[field.name] = [each for each in value if _is_shown(field, each, is_shown)]
        if field.fields:
            for each in tree[field.name] if field.is_array else [value]:
                _leave_out(field.fields, each, is_shown)


def _is_shown(field: Field, element: Any, is_shown: Callable[[str], bool]) -> bool:
    if not field.fields:
        return field.kind is not Kind.TOPIC or is_shown(element)
    names = (element[each.name] for each in field.fields if each.kind is Kind.TOPIC and not each.is_array)
    return all(is_shown(name) for name in names if name is not None)

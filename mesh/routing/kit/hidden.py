"""Removes entities from a leaf's answers that clients of its union do not see: hidden topics, and groups and
transactions with another home."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.messages import Buffer
from mesh.wire.trees import Tree, read_tree, write_tree

IsShown: TypeAlias = Callable[[EntityKind, Any], bool]
_NAMED: Final = frozenset(
    {EntityKind.TOPIC, EntityKind.TOPIC_ID, EntityKind.PARTITION, EntityKind.GROUP, EntityKind.TRANSACTIONAL_ID}
)


def without_hidden(api_key: ApiKey, version: int, body: Buffer, is_shown: IsShown) -> bytes:
    """Returns the body of an answer without the array elements that name a hidden entity.

    is_shown: whether clients see a topic, one of its partitions, a group or a transaction of this leaf; called in the
    order of the answer. Raises ProtocolError.
    """
    answer = read_tree(api_key, version, Direction.RESPONSE, body)
    _remove_hidden(layout(api_key, version, Direction.RESPONSE), answer, is_shown)
    return write_tree(api_key, version, Direction.RESPONSE, answer)


def _remove_hidden(fields: Sequence[Field], tree: Tree, is_shown: IsShown) -> None:
    for field in fields:
        value = tree.get(field.name)
        if not value:
            continue
        if field.is_array:
            tree[field.name] = [each for each in value if _prune(field, each, is_shown)]
        elif field.fields:
            _remove_hidden(field.fields, value, is_shown)


def _prune(field: Field, element: Any, is_shown: IsShown) -> bool:
    """Removes hidden elements from an element. Returns False if the element itself is hidden."""
    if not _is_shown(field, element, is_shown):
        return False
    if field.fields:
        _remove_hidden(field.fields, element, is_shown)
    return True


def _is_shown(field: Field, element: Any, is_shown: IsShown) -> bool:
    if not field.fields:
        return field.kind is None or field.kind not in _NAMED or is_shown(field.kind, element)
    named = [each for each in field.fields if each.kind in _NAMED and not each.is_array]
    return all(
        is_shown(each.kind, element[each.name])
        for each in named
        if each.kind is not None and element[each.name] is not None
    )

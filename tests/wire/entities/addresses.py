"""The addresses in answers to clients, and kio's entities with them, without the programs under test."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, is_dataclass, replace
from typing import Any

from kio.schema.errors import ErrorCode as KioErrorCode


class Addresses:
    """Other hosts and ports for all nodes but those in `absent`; keeps the nodes that were asked for.

    is_by_remainder: `absent` are remainders of the ids by 4.
    """

    def __init__(self, absent: Collection[int] = (), is_by_remainder: bool = False) -> None:
        self._absent, self._is_by_remainder = absent, is_by_remainder
        self.asked: list[int] = []

    def address_of(self, node: int, host: str, port: int) -> tuple[str, int] | None:
        self.asked.append(node)
        if (node % 4 if self._is_by_remainder else node) in self._absent:
            return None
        return f"mesh-{host}", port ^ 1


def told(entity: Any, addresses: Addresses) -> Any:
    """One of kio's answers with all of its addresses changed."""
    if getattr(entity, "endpoint_type", 1) == 2:
        return entity
    values = {field.name: getattr(entity, field.name) for field in fields(entity)}
    changed = {name: _told(value, addresses) for name, value in values.items()}
    if _is_asked_about(entity):
        changed |= _address(entity, addresses)
    return replace(entity, **changed)


def _told(value: Any, addresses: Addresses) -> Any:
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        return tuple(told(one, addresses) for one in value if not _is_left_out(one, addresses))
    return value


def _is_asked_about(entity: Any) -> bool:
    return hasattr(entity, "port") and _node(entity) >= 0 and entity.host != ""


def _node(entity: Any) -> int:
    return int(entity.node_id if hasattr(entity, "node_id") else entity.broker_id)


def _is_left_out(element: Any, addresses: Addresses) -> bool:
    if not _is_asked_about(element) or hasattr(element, "error_code"):
        return False
    return addresses.address_of(_node(element), element.host, element.port) is None


def _address(entity: Any, addresses: Addresses) -> dict[str, Any]:
    address = addresses.address_of(_node(entity), entity.host, entity.port)
    if address is not None:
        return {"host": address[0], "port": address[1]}
    return {"node_id": -1, "host": "", "port": -1, "error_code": KioErrorCode.coordinator_not_available}

"""Cuts the mistakes out of a configuration, so that the other checks can still run."""

from __future__ import annotations

import copy
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mesh.config.mistakes import KeyPath
from mesh.config.model import KINDS, Config

_STAND_INS: Final[dict[str, Any]] = {
    "bootstrap_servers": "-:1",
    "cluster": "-",
    "clusters": [],
    "coordinator": "-:2",
    "config": {},
    "from": [],
    "groups": [],
    "id": 0,
    "listen": "-:1",
    "name": "0",
    "on": [],
    "pool": {},
    "router": "-",
    "routers": [],
    "routes": [],
    "target": {"pool": {}},
    "topic": "-",
    "topics": [],
    "type": "topics",
    "virtual_clusters": [],
}
"""Values for keys that are wrong, or missing without a default, so that their neighbours are still checked."""


class PartialConfig:
    """A configuration without its mistakes. config: made of the parts without a mistake and of stand-ins, or None if
    nothing usable is left."""

    def __init__(self, data: object) -> None:
        self._data: Any = copy.deepcopy(data)
        self._kept: dict[KeyPath, list[int]] = {}
        self.config: Config | None = None
        while self.config is None:
            try:
                self.config = Config.model_validate(self._data)
            except ValidationError as error:
                if not self._repair(next(path_of(each) for each in error.errors() if is_of_its_own(each))):
                    break

    def original(self, path: KeyPath) -> KeyPath:
        """Returns the path in the whole configuration of a finding at `path` in this one."""
        found: KeyPath = ()
        for part in path:
            kept = self._kept.get(found) if isinstance(part, int) else None
            found = (*found, kept[part] if kept is not None and isinstance(part, int) else part)
        return found

    def _repair(self, path: KeyPath) -> bool:
        if not path:
            return False
        *ancestors, last = path
        container = self._data
        for part in ancestors:
            container = container[part]
        if isinstance(container, dict) and last not in container:
            if last not in _STAND_INS:
                return self._repair(tuple(ancestors))
            container[last] = copy.deepcopy(_STAND_INS[str(last)])
            return True
        if isinstance(container, list) and isinstance(last, int):
            kept = self._kept.setdefault(self.original(tuple(ancestors)), list(range(len(container))))
            del kept[last]
        del container[last]
        return True


def path_of(details: ErrorDetails) -> KeyPath:
    """Returns the path of a pydantic error, without the names that pydantic gives to the kinds of unions."""
    return tuple(part for part in details["loc"] if part not in KINDS)


def is_of_its_own(details: ErrorDetails) -> bool:
    """Returns False for an error that only follows from another one: a default derived from a wrong value."""
    return details["type"] != "default_factory_not_called"

"""A store of share groups in memory that answers at once, for worlds without IO."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from mesh.pool.common.effects import ChangeGroupConfigs
from mesh.pool.common.group_configs import Overrides, changed
from mesh.pool.common.ids import GroupId
from mesh.pool.common.results import GroupConfigsChanged
from mesh.wire.errors import ErrorCode


class KeptInMemory:
    """Implements `mesh.pool.common.group_configs.KeptShareGroups`."""

    def __init__(self) -> None:
        self.is_loading = False
        self.set: dict[GroupId, Overrides] = {}
        self.seen: set[GroupId] = set()

    def overrides(self, group: GroupId) -> Overrides:
        return self.set.get(group, {})

    def configured(self) -> AbstractSet[GroupId]:
        return {group for group, overrides in self.set.items() if overrides}

    def groups(self) -> AbstractSet[GroupId]:
        return self.seen

    def knows(self, group: GroupId) -> bool:
        return group in self.seen

    def change(self, asked: ChangeGroupConfigs) -> GroupConfigsChanged:
        for group, changes in asked.changes.items():
            self.set[group] = changed(self.overrides(group), changes)
        return GroupConfigsChanged(dict.fromkeys(asked.changes, (ErrorCode.NONE, "")))

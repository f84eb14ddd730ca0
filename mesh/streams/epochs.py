"""The epochs of a group's description: the one that is stored, and the one at which the plugin failed for good.

They are written before and after each call of the plugin, so that they never claim more than is true:

* stored = n: the plugin has the description of epoch n. -1: it has none. -2: it is not known. -2 is written before the
  plugin is called (KAFKA-20748), so it stays if the process is interrupted in between.
* failed = n: the plugin refused epoch n for good, and is not called for it again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

NONE: Final = -1
UNCERTAIN: Final = -2


@dataclass(frozen=True, slots=True)
class Epochs:
    """The topology epochs of one group. deletions: the number of times that the plugin has deleted its description."""

    stored: int = NONE
    failed: int = NONE
    deletions: int = 0

    @property
    def has_description(self) -> bool:
        """True if the plugin has a description, or may have one."""
        return self.stored != NONE


def about_to_change(epochs: Epochs) -> Epochs:
    """The epochs before a call of the plugin that changes a description."""
    return replace(epochs, stored=UNCERTAIN)


def was_set(epochs: Epochs, epoch: int, deletions: int) -> Epochs:
    """The epochs after the plugin has accepted the description of an epoch. If a description was deleted meanwhile, it
    is unknown which of the two calls came last.

    deletions: the number before the plugin was called. A changed number shows a deletion, even if another push has
    begun since then. So does a missing stored epoch, if the group was forgotten since then.
    """
    was_deleted_meanwhile = epochs.deletions != deletions or epochs.stored == NONE
    return replace(epochs, stored=UNCERTAIN if was_deleted_meanwhile else max(epochs.stored, epoch))


def was_refused(epochs: Epochs, epoch: int) -> Epochs:
    """The epochs after the plugin has refused an epoch for good."""
    return replace(epochs, failed=max(epochs.failed, epoch))


def was_deleted(epochs: Epochs) -> Epochs:
    """The epochs after the plugin has deleted the description. If an epoch is stored nevertheless, a description was
    pushed meanwhile."""
    stored = NONE if epochs.stored in (NONE, UNCERTAIN) else UNCERTAIN
    return replace(epochs, stored=stored, deletions=epochs.deletions + 1)

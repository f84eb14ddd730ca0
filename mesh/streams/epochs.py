"""What is known of a group's description: the epoch that is stored, and the one at which the plugin failed for good.

Both are written before and after what a plugin does, so that they never say more than is true:

* stored = n: the plugin has the description of epoch n. -1: it has none. -2: nobody knows. -2 is written before the
  plugin is called (KAFKA-20748), so whoever is interrupted in between leaves it behind.
* failed = n: the plugin refused epoch n for good, and it is not asked for again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

NONE: Final = -1
UNCERTAIN: Final = -2


@dataclass(frozen=True, slots=True)
class Epochs:
    """Of one group."""

    stored: int = NONE
    failed: int = NONE

    @property
    def has_description(self) -> bool:
        """Whether the plugin has one, or may have."""
        return self.stored != NONE


def about_to_change(epochs: Epochs) -> Epochs:
    """The plugin is about to be called."""
    return replace(epochs, stored=UNCERTAIN)


def was_set(epochs: Epochs, epoch: int) -> Epochs:
    """The plugin has taken the description of this epoch. Where none is stored any more, one was deleted meanwhile, and
    nobody knows which of the two came last."""
    return replace(epochs, stored=UNCERTAIN if epochs.stored == NONE else max(epochs.stored, epoch))


def was_refused(epochs: Epochs, epoch: int) -> Epochs:
    """The plugin has refused this epoch for good."""
    return replace(epochs, failed=max(epochs.failed, epoch))


def was_deleted(epochs: Epochs) -> Epochs:
    """The plugin has deleted what it had. Where an epoch is stored again, one was pushed meanwhile."""
    return replace(epochs, stored=NONE if epochs.stored in (NONE, UNCERTAIN) else UNCERTAIN)

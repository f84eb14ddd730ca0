"""Requests for particular APIs, beside the generic ones: valid ones with an effect, and mistakes that a client can
make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tests.relay.scripts import (
    admin,
    cluster,
    configs,
    data,
    groups,
    newer_groups,
    offsets,
    shares,
    topics,
    transactions,
)
from tests.relay.sides import Side

Script: TypeAlias = Callable[[Side, int], None]

SCRIPTS: Mapping[str, Script] = {
    **data.SCRIPTS,
    **offsets.SCRIPTS,
    **groups.SCRIPTS,
    **newer_groups.SCRIPTS,
    **shares.SCRIPTS,
    **transactions.SCRIPTS,
    **topics.SCRIPTS,
    **configs.SCRIPTS,
    **admin.SCRIPTS,
    **cluster.SCRIPTS,
}
"""Scripts by the API's name; a script sends one request in a version."""

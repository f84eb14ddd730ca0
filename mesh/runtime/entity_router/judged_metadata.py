"""Metadata for clients under rules."""

from __future__ import annotations

from mesh.routing.guards.metadata import JudgedMetadata
from mesh.runtime.entity_router.metadata import RouterMetadata
from mesh.wire.trees import Tree

_FIRST_WITH_NULL = 1
"""In v0 of Metadata, an empty list means all topics."""


async def answer(judged: JudgedMetadata, metadata: RouterMetadata, version: int) -> Tree:
    """Answers a Metadata request under rules. version: the version of the judged request."""
    answers = []
    for request in judged.requests:
        is_nothing = request["topics"] == [] and judged.refused
        asked_in = max(version, _FIRST_WITH_NULL) if is_nothing else version
        answers.append(await metadata.answer(request, asked_in, judged.sees))
    return judged.complete(answers)

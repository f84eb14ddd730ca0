"""The parts of concatenated topics, as this process knows them: the ids that their clusters gave them, and whether they
have the declared number of partitions."""

from __future__ import annotations

from typing import Final, Protocol

from mesh.routing.concatenated import Part, problem_with
from mesh.routing.metadata import KnownLeaf
from mesh.routing.names import LeafNumber
from mesh.runtime.entity_router.leaves import Leaves
from mesh.wire.trees import ZERO_ID


class PartProblems(Protocol):
    """Reports the problem `topic_width` of parts to operators."""

    def begin(self, part: Part, reason: str) -> None: ...

    def end(self, part: Part) -> None: ...


class KnownParts:
    """The parts of concatenated topics, as the Metadata of leaves has reported them."""

    def __init__(self, leaves: Leaves, problems: PartProblems) -> None:
        self._leaves: Final = leaves
        self._problems: Final = problems
        self._reported: Final[set[tuple[LeafNumber, str]]] = set()
        self._with_problems: dict[tuple[LeafNumber, str], Part] = {}

    def take(self, leaf: LeafNumber, known: KnownLeaf) -> None:
        """Takes the topics of a leaf after its last response, and checks its parts."""
        for part in self._leaves.names.concatenated.parts_at(leaf):
            topic = known.topics.get(part.topic)
            if topic is not None and topic.get("topic_id", ZERO_ID) != ZERO_ID:
                self._leaves.part_ids.learn(leaf, part.topic, topic["topic_id"])
            key = leaf, part.topic
            if topic is not None or known.has_reported or key in self._reported:
                self._check(part, 0 if topic is None else len(topic["partitions"]))

    def take_all(self, leaf: LeafNumber, known: KnownLeaf) -> None:
        """Notes that a leaf has answered about all of its parts."""
        self._reported.update((leaf, part.topic) for part in self._leaves.names.concatenated.parts_at(leaf))
        self.take(leaf, known)

    def is_reported(self, part: Part) -> bool:
        """True if the leaf of a part has ever reported whether it has the part."""
        return (part.leaf, part.topic) in self._reported

    def leaves_changed(self) -> None:
        """Ends the problems of topics that are no longer parts."""
        topics = self._leaves.names.concatenated
        for (leaf, topic), part in list(self._with_problems.items()):
            if topics.part(leaf, topic) is None:
                self._end(part)

    def _check(self, part: Part, partitions: int) -> None:
        if (reason := problem_with(part, partitions)) is not None:
            self._with_problems[part.leaf, part.topic] = part
            self._problems.begin(part, reason)
        else:
            self._end(part)

    def _end(self, part: Part) -> None:
        if self._with_problems.pop((part.leaf, part.topic), None) is not None:
            self._problems.end(part)

"""What the interceptors of a virtual cluster know of one of its clients."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mesh.interceptors.frames import Task
from mesh.interceptors.selection import Chosen, Selection
from mesh.interceptors.spi import On, Where
from mesh.runtime.interception.judging import Judges, Work
from mesh.runtime.interception.messages import TopicKey
from mesh.runtime.interception.topic_names import TopicNames
from mesh.security.principals import ANONYMOUS, Principal


@dataclass(frozen=True, slots=True)
class Interceptors:
    """The interceptors of a virtual cluster, which of them see what, and the names of the topics that clients see."""

    judges: Judges
    selection: Selection
    names: TopicNames


class InterceptedClient:
    """The interceptors of a virtual cluster, for one of its clients.

    principal, may_write: asked for at each request. What a client may not write is refused behind them, and no
    interceptor sees it.
    """

    def __init__(
        self,
        interceptors: Interceptors,
        principal: Callable[[], Principal | None],
        may_write: Callable[[str], bool],
    ) -> None:
        self.judges: Final = interceptors.judges
        self.names: Final = interceptors.names
        self._selection: Final = interceptors.selection
        self._principal: Final = principal
        self._may_write: Final = may_write

    def name_of(self, topic: TopicKey) -> str | None:
        """None: it is not known."""
        return self.names.known(topic) if isinstance(topic, UUID) else topic

    def chosen(self, topic: TopicKey, on: On) -> Chosen | None:
        """The interceptors of a topic whose name is known; None: it has none."""
        name = self.name_of(topic)
        if name is None or (on is On.PRODUCE and not self._may_write(name)):
            return None
        return self._selection.chosen(name, on, self.principal)

    def unknown(self, topics: Collection[TopicKey]) -> list[UUID]:
        """Ids of topics whose names are not known."""
        return [each for each in topics if isinstance(each, UUID) and self.names.known(each) is None]

    @property
    def principal(self) -> Principal:
        return self._principal() or ANONYMOUS

    def work(
        self,
        chosen: Chosen,
        topic: TopicKey,
        partition: int,
        on: On,
        records: bytes,
        client_id: str | None,
        aborted: tuple[tuple[int, int], ...] = (),
    ) -> Work:
        name = self.name_of(topic)
        assert name is not None, "interceptors are chosen by the name"
        where = Where(self.judges.name, name, partition, on, self.principal, client_id)
        return Work(chosen, Task(chosen.steps, records, where, aborted))

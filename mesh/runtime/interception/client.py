"""The interceptors of a virtual cluster, for one client."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mesh.interceptors.frames import Task
from mesh.interceptors.selection import Chosen, Selection
from mesh.interceptors.sequences import Sequences
from mesh.interceptors.spi import On, Where
from mesh.runtime.interception.interceptor_runner import InterceptorRunner, InterceptorWork
from mesh.runtime.interception.messages import TopicKey
from mesh.runtime.interception.topic_names import TopicNames
from mesh.security.principals import ANONYMOUS, Principal


@dataclass(frozen=True, slots=True)
class Interceptors:
    """The interceptors of a virtual cluster.

    runner: runs the interceptors. selection: chooses the interceptors of a topic. names: the names of topics as clients
    see them, by id. sequences: the sequence numbers of producers whose records may be dropped.
    """

    runner: InterceptorRunner
    selection: Selection
    names: TopicNames
    sequences: Sequences


class InterceptedClient:
    """The interceptors of a virtual cluster, for one of its clients.

    principal, may_write: called for each request. Interceptors do not see the records for a topic that the client may
    not write: the request is refused later.
    """

    def __init__(
        self,
        interceptors: Interceptors,
        principal: Callable[[], Principal | None],
        may_write: Callable[[str], bool],
    ) -> None:
        self.runner: Final = interceptors.runner
        self.names: Final = interceptors.names
        self.sequences: Final = interceptors.sequences
        self._selection: Final = interceptors.selection
        self._principal: Final = principal
        self._may_write: Final = may_write

    def name_of(self, topic: TopicKey) -> str | None:
        """The name of a topic; None if it is not known."""
        return self.names.known(topic) if isinstance(topic, UUID) else topic

    def chosen(self, topic: TopicKey, on: On) -> Chosen | None:
        """The interceptors of a topic; None if there are none, or the name of the topic is not known."""
        name = self.name_of(topic)
        if name is None or (on is On.PRODUCE and not self._may_write(name)):
            return None
        return self._selection.chosen(name, on, self.principal)

    def unknown(self, topics: Collection[TopicKey]) -> list[UUID]:
        """The ids of topics whose names are not known."""
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
        decided: int | None = None,
    ) -> InterceptorWork:
        """The work of the chosen interceptors on the records of a partition. aborted, decided: as in
        `mesh.interceptors.chain.run_chain`."""
        name = self.name_of(topic)
        assert name is not None, "interceptors are chosen by the name"
        where = Where(self.runner.name, name, partition, on, self.principal, client_id)
        return InterceptorWork(chosen, Task(chosen.steps, records, where, aborted, decided))

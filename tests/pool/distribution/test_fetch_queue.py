"""The order by rank, compared with a plain dictionary that is sorted each time."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesh.pool.distribution.fetch_queue import Ranking
from mesh.pool.state.partition import Rank


class RankingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ranking: Ranking[int] = Ranking()
        self.model: dict[Rank, int] = {}
        self.sequence = 0

    @rule(load=st.sampled_from([0.0, 0.5, 1.0]), served=st.integers(0, 3))
    def add(self, load: float, served: int) -> None:
        self.sequence += 1
        rank = (load, 0.0, served, self.sequence)
        self.model[rank] = self.sequence
        self.ranking.add(rank, self.sequence)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        rank = data.draw(st.sampled_from(sorted(self.model)))
        del self.model[rank]
        self.ranking.remove(rank)
        with pytest.raises(KeyError):
            self.ranking.remove(rank)

    @rule()
    def look(self) -> None:
        expected = [self.model[rank] for rank in sorted(self.model)]
        assert list(self.ranking) == expected
        assert [self.ranking.at(index) for index in range(len(expected))] == expected
        with pytest.raises(IndexError):
            self.ranking.at(len(expected))

    @invariant()
    def counts(self) -> None:
        assert len(self.ranking) == len(self.model)


TestRanking = RankingMachine.TestCase

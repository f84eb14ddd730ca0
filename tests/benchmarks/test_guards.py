"""The guards on the way of a Fetch answer cost a few steps of the interpreter, whatever the answer's size."""

from __future__ import annotations

from benchmarks.guards import VARIANTS, costs, leg_class
from mesh.upstream.links.chunks import Chunks
from tests.benchmarks.steps import count_steps


class Nobody:
    def leg_opened(self) -> None: ...

    def leg_received(self, chunk: memoryview) -> None: ...

    def leg_full(self, *, is_full: bool) -> None: ...

    def leg_lost(self, reason: str) -> None: ...

    def leg_failed(self, problem: BaseException) -> None: ...


def test_the_benchmark_works() -> None:
    found = costs(1_000, 2, 2)
    assert {name: len(found[name]) for name in VARIANTS} == dict.fromkeys(VARIANTS, 2)


def test_guards_cost_a_few_steps() -> None:
    steps: dict[str, int] = {}
    for variant in VARIANTS:
        leg = leg_class(variant)(Nobody(), Chunks())

        def read(leg: object = leg) -> None:
            leg.get_buffer(-1)  # type: ignore[attr-defined]
            leg.buffer_updated(5_000)  # type: ignore[attr-defined]

        read()
        steps[variant] = count_steps(read)
    assert 0 < steps["guarded"] - steps["bare"] <= 5, steps

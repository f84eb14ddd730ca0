"""`python -m benchmarks.guards`: what the guards in the calls of the event loop cost on the way of a Fetch answer.

A leg of a relay gets an answer, and its wire passes it on: `Leg.get_buffer`, `Leg.buffer_updated`, the wire's look at
the frame. The same class without its guards does the same, in turns, in CPU time of this process. The bytes of an
answer come from memory, so the share of the guards is larger here than in a mesh, which also makes system calls.
"""

from __future__ import annotations

import ast
import gc
import inspect
import statistics
import textwrap
import time
from collections.abc import Mapping, Sequence
from struct import pack
from typing import Annotated, Any

import typer

from benchmarks.journal import difference, said
from benchmarks.machine import describe
from mesh.upstream.links import leg as module
from mesh.upstream.links.chunks import Chunks
from mesh.upstream.links.leg import Leg
from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction
from mesh.wire.relayed_apis import ADVERTISED_APIS
from mesh.wire.relaying import RelayedConnection
from mesh.wire.trees import write_tree

VARIANTS = ("bare", "guarded")
CALLS = ("get_buffer", "buffer_updated")
VERSION = 12
REQUEST = pack(">hhih", ApiKey.FETCH, VERSION, 7, 3) + b"app\0"
ANSWER = pack(">i", 7) + b"\0"


class Owner:
    """The owner of a leg, with the wire of a relay. passed: the number of bytes for the client."""

    def __init__(self) -> None:
        self.passed = 0
        nowhere: Any = None  # no broker has another address
        self.wire = RelayedConnection(ADVERTISED_APIS, ADVERTISED_APIS, frozenset(), nowhere, lambda _: None, 1 << 20)

    def leg_opened(self) -> None: ...

    def leg_received(self, chunk: memoryview) -> None:
        self.passed += sum(map(len, self.wire.receive_answers(chunk)))

    def leg_full(self, *, is_full: bool) -> None: ...

    def leg_lost(self, reason: str) -> None: ...

    def leg_failed(self, problem: BaseException) -> None:
        raise problem


class _Bare(ast.NodeTransformer):
    """Puts the content of each guard in its place."""

    def visit_Try(self, node: ast.Try) -> list[ast.stmt]:
        return node.body


def leg_class(variant: str) -> type[Leg]:
    """Returns the class of legs, with its guards or without."""
    if variant == "guarded":
        return Leg
    found: dict[str, Any] = {}
    for name in CALLS:
        tree = _Bare().visit(ast.parse(textwrap.dedent(inspect.getsource(getattr(Leg, name)))))
        exec(compile(ast.fix_missing_locations(tree), module.__file__, "exec"), vars(module).copy(), found)
    return type("BareLeg", (Leg,), {name: found[name] for name in CALLS})


def costs(size: int, answers: int, repetitions: int) -> dict[str, list[float]]:
    """Microseconds of CPU of an answer. size: bytes of its records."""
    partition = {"partition_index": 0, "high_watermark": 9, "records": bytes(size)}
    body = {"responses": [{"topic": "orders", "partitions": [partition]}]}
    frame = ANSWER + write_tree(ApiKey.FETCH, VERSION, Direction.RESPONSE, body)
    answer = pack(">i", len(frame)) + frame
    request = REQUEST + write_tree(ApiKey.FETCH, VERSION, Direction.REQUEST, {"topics": []})
    asked = memoryview(bytearray(pack(">i", len(request)) + request))
    found: dict[str, list[float]] = {name: [] for name in VARIANTS}
    legs = {name: leg_class(name) for name in VARIANTS}
    gc.collect()
    gc.freeze()  # as the mesh runs
    for number in range(repetitions + 1):
        for name in VARIANTS if number % 2 else reversed(VARIANTS):
            owner = Owner()
            leg = legs[name](owner, Chunks())
            began = time.process_time()
            for _ in range(answers):
                owner.wire.receive_requests(asked, 0.0)
                leg.get_buffer(-1)[: len(answer)] = answer
                leg.buffer_updated(len(answer))
            cost = (time.process_time() - began) / answers * 1e6
            assert owner.passed == answers * len(answer)
            if number:  # the first turn fills caches
                found[name].append(cost)
    gc.unfreeze()
    return found


def ratio(found: Mapping[str, Sequence[float]]) -> float:
    """The median of the ratios with and without guards, of each pair of turns."""
    return statistics.median(guarded / bare for bare, guarded in zip(found["bare"], found["guarded"], strict=True))


def main(
    answers: Annotated[int, typer.Option(min=10, help="Of each turn: many short ones are disturbed less.")] = 2_000,
    repetitions: Annotated[int, typer.Option(min=2, help="Turns of each variant.")] = 60,
) -> None:
    """CPU of the guards on the way of a Fetch answer through a relay."""
    print(", ".join(describe().values()))
    for size in (1_000, 100_000):
        found = costs(size, answers, repetitions)
        cost = said(difference(found["bare"], found["guarded"]), "us")
        without = statistics.median(found["bare"])
        print(f"answers of {size:,} B: ratio {ratio(found):.3f}; {without:.2f} us without guards, and {cost} for them")


if __name__ == "__main__":
    typer.run(main)

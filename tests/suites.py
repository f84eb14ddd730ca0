"""Files that a run of pytest need not read.

`make test` and each shard of `make test-long` run pytest for other marks. Collecting all tests takes a minute, so a run
does not import files that have no test for it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from functools import cache
from itertools import compress, product
from pathlib import Path

from _pytest.mark.expression import Expression

GATE = "not long and not alone and (not kafka or smoke)"
"""The tests of `make test`."""
SUITES = frozenset({"long", "deep", "alone", "outside", "smoke"})
"""Marks that name the run of a test."""
LONGEST = (
    "tests/spark/test_short.py",
    "tests/integration/test_requests_as_brokers_read_them.py",
    "tests/listener/test_fuzz.py",
    "tests/relay/test_differential.py",
    "tests/pool/test_state_machine.py",
    "tests/router/authorizer/test_authorizer.py",
    "tests/routing/kit/test_split_and_merge.py",
    "tests/integration/test_share_members.py",
    "tests/wire/test_trees.py",
    "tests/upstream/raw/test_fetching.py",
    "tests/pool/distribution/test_reservations.py",
    "tests/router/test_groups.py",
    "tests/wire/test_encoder.py",
    "tests/integration/test_interceptors_of_impatient_clients.py",
    "tests/demo/test_demo.py",
    "tests/supervision/test_supervisor.py",
    "tests/runtime/interception/test_workers.py",
)
"""The files of `make test` that take ten seconds or more. They begin first: a long file that begins last leaves the
other processes idle. Those that wait and those that compute take turns."""

_MARKED_BY_IMPORT = {
    "tests.clients.selection": {"long", "deep"},
    "tests.planted": {"long"},
    "tests.relay.advertised": {"long", "deep", "smoke"},
}
"""Modules that mark the tests of the files that import them."""


def place_in_gate(file: str) -> tuple[int, int]:
    """Returns a sort key for a file of `make test`: the longest first, then all others in an order that mixes folders.

    Neighbours in a folder wait alike or compute alike. Mixed, some test processes wait while others compute.
    """
    return LONGEST.index(file) if file in LONGEST else len(LONGEST), zlib.crc32(file.encode())


def may_have(expression: str, named: Iterable[str]) -> bool:
    """Returns true if a file that names the marks `named` may have a test that `expression` (of `-m`) selects."""
    words = set(re.findall(r"\w+", expression)) - {"and", "or", "not"}
    certain = SUITES.difference(named)
    unknown = sorted(words - certain)
    compiled = Expression.compile(expression)
    choices = product((False, True), repeat=len(unknown))
    return any(compiled.evaluate(_Present(compress(unknown, chosen))) for chosen in choices)


class _Present:
    """The names that are true in an expression."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def __call__(self, name: str, /, **_: str | int | bool | None) -> bool:
        return name in self._names


@cache
def marks_named_in(file: Path) -> frozenset[str]:
    """Marks of SUITES that the text of `file` names."""
    text = file.read_text()
    imported = [marks for module, marks in _MARKED_BY_IMPORT.items() if module in text]
    return SUITES.intersection(re.findall(r"\bmark\.(\w+)", text)).union(*imported)

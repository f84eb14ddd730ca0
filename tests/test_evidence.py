"""The statements of the pages have tests that exist. Each promise has one of `make test`, or names a shard."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set

import pytest

from tests.evidence import GUARANTEES, ROOT, function_of, places, promises, shard_of, statements
from tests.shards import SHARDS, shards_of
from tests.suites import GATE

PROMISES = statements()[GUARANTEES]


def test_every_promise_names_its_tests() -> None:
    rows = [line for line in (ROOT / "docs" / GUARANTEES).read_text().splitlines() if re.match(r"\| [A-Z]\d+ \|", line)]
    assert len(rows) == len(promises()) > 50
    assert promises().keys() == PROMISES.keys()
    assert all(any(map(function_of, refs)) for refs in PROMISES.values())


def test_every_line_of_a_table_of_promises_has_a_number() -> None:
    text = (ROOT / "docs" / GUARANTEES).read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| |")]
    assert not [row for row in rows if not re.match(r"\| [A-Z]\d+ \|", row)]


@pytest.mark.parametrize("page", statements())
def test_the_tests_exist(page: str) -> None:
    document = ROOT / "docs" / page.partition(": ")[0]
    assert document.is_file()
    for statement, refs in statements()[page].items():
        assert refs, statement
        for ref in refs:
            assert shard_of(ref) or ref.startswith("none: ") or len(places(ref)) == 1, f"{ref}: not one place"


def without_gate(promises: Iterable[Sequence[str]], collected: Set[str]) -> list[Sequence[str]]:
    """The promises without a test among the collected ones that name no shard either."""
    return [refs for refs in promises if collected.isdisjoint(map(function_of, refs)) and not any(map(shard_of, refs))]


def test_each_promise_has_a_test_of_this_run_or_names_a_shard(request: pytest.FixtureRequest) -> None:
    config = request.config
    if config.option.markexpr != GATE or config.args != config.getini("testpaths"):
        pytest.skip("needs the whole of make test")
    assert without_gate(PROMISES.values(), {item.name.partition("[")[0] for item in request.session.items}) == []


def test_a_promise_without_either_is_found() -> None:
    kept, long, broken = ["test_a"], ["test_b", "shard pool: kills"], ["pool/test_x.py::test_b"]
    assert without_gate([kept, long, broken], {"test_a"}) == [broken]


def test_a_named_shard_has_a_test_of_its_promise() -> None:
    named = [(statement, shard) for statement, refs in PROMISES.items() for shard in map(shard_of, refs) if shard]
    assert {shard for _, shard in named} <= SHARDS.keys()
    for statement, shard in named:
        refs = PROMISES[statement]
        assert any(shard in shards_of(file) for ref in refs if function_of(ref) for file in places(ref)), statement

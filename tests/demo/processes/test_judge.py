"""The independent count, against journals written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.demo.processes.journal import Entry, RecordId
from mesh.demo.processes.judge import JudgeVerdict, judge


def entry(number: int, fingerprint: str = "f") -> Entry:
    return Entry(RecordId(f"eu-{number}"), fingerprint)


def judged(folder: Path, fed: list[Entry], received: Mapping[str, list[Entry]]) -> JudgeVerdict:
    journals = {name: folder / name for name in ("fed", *received)}
    for name, entries in {"fed": fed, **received}.items():
        journals[name].write_text("".join(f"{each.id} {each.fingerprint}\n" for each in entries))
    return judge(journals["fed"], [journals[name] for name in received])


def test_each_record_delivered_once_to_one_of_the_members(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [entry(1), entry(2), entry(3)], {"a": [entry(3)], "b": [entry(1), entry(2)]})
    assert verdict == JudgeVerdict(fed=3, delivered=3, missing=(), repeated=(), altered=(), unknown=())
    assert verdict.exactly_once
    assert list(verdict.lines()) == [
        "3 records fed, 3 delivered",
        "every record was delivered exactly once, unaltered",
    ]


def test_a_record_that_nobody_received(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [entry(1), entry(2)], {"a": [entry(1)], "b": []})
    assert verdict.missing == ("eu-2",)
    assert not verdict.exactly_once
    assert list(verdict.lines()) == ["2 records fed, 1 delivered", "never delivered: 1 (eu-2)"]


@pytest.mark.parametrize("second", ["a", "b"])
def test_a_record_that_came_twice(tmp_path: Path, second: str) -> None:
    received = {"a": [entry(1), entry(2)], "b": [entry(3)]}
    received[second].append(entry(2))
    verdict = judged(tmp_path, [entry(1), entry(2), entry(3)], received)
    assert verdict.repeated == ("eu-2",)
    assert verdict.delivered == 4
    assert not verdict.exactly_once


def test_a_record_that_is_not_what_was_fed(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [entry(1), entry(2)], {"a": [entry(1), entry(2, "other")]})
    assert verdict.altered == ("eu-2",)
    assert not verdict.exactly_once


def test_the_second_copy_is_compared_too(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [entry(1)], {"a": [entry(1)], "b": [entry(1, "other")]})
    assert (verdict.repeated, verdict.altered) == (("eu-1",), ("eu-1",))


def test_a_record_that_nobody_fed(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [entry(1)], {"a": [entry(1), entry(9)]})
    assert verdict.unknown == ("eu-9",)
    assert not verdict.exactly_once


def test_nothing_fed_proves_nothing(tmp_path: Path) -> None:
    assert not judged(tmp_path, [], {"a": []}).exactly_once


def test_only_some_ids_are_named(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [entry(number) for number in range(1_200)], {"a": []})
    assert list(verdict.lines())[1] == "never delivered: 1,200 (eu-0, eu-1, eu-2, eu-3, eu-4, …)"


def test_an_id_fed_twice_makes_the_count_worthless(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="eu-1 twice"):
        judged(tmp_path, [entry(1), entry(1)], {"a": [entry(1)]})


@given(receivers=st.lists(st.lists(st.sampled_from("abc"), max_size=3), max_size=30))
def test_exactly_once_means_one_receiver_each(
    tmp_path_factory: pytest.TempPathFactory, receivers: list[list[str]]
) -> None:
    fed = [entry(number) for number in range(len(receivers))]
    received = {name: [each for each, names in zip(fed, receivers, strict=True) if name in names] for name in "abc"}
    verdict = judged(tmp_path_factory.mktemp("journals"), fed, received)
    takers = [len(set(names)) for names in receivers]
    assert verdict.exactly_once == (bool(fed) and all(count == 1 for count in takers))
    assert len(verdict.missing) == takers.count(0)
    assert verdict.delivered == sum(takers)

"""An audit reads only new data, however much there was before. The tests count what it reads, because times say
less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from mesh.journal.pages import Page
from mesh.pipelines.audit import audit, journalled
from mesh.pipelines.audit.accounts import AuditState
from mesh.pipelines.audit.job import AuditJob
from mesh.pipelines.audit.kafka import LogOfTopic, Properties, Stretch, read_pages, read_runs
from mesh.pipelines.audit.records import Memory
from tests.pipelines.audit.test_kafka import HOUR, produce
from tests.pipelines.audit.test_landed import append
from tests.pipelines.lists import Session
from tests.upstream.conftest import mock_cluster as mock_cluster
from tests.upstream.harness import new_name

GROUP = "g"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts of the offsets, pages and files that were read; the mock cluster knows no configurations."""
    from mesh.pipelines.audit import landed

    found = Counter[str]()
    rows_of_file = landed._rows_of_file

    def runs(properties: Properties, stretch: Stretch, window: int) -> Iterator[tuple[int, int, int]]:
        for run in read_runs(properties, stretch, window):
            found["offsets"] += run[1] - run[0] + 1
            yield run

    def pages(properties: Properties, stretch: Stretch) -> Iterator[Any]:
        for page in read_pages(properties, stretch):
            found["pages"] += 1
            yield page

    def rows(file: str) -> Iterator[Any]:
        found["files"] += 1
        yield from rows_of_file(file)

    monkeypatch.setattr(audit, "read_runs", runs)
    monkeypatch.setattr(journalled, "read_pages", pages)
    monkeypatch.setattr(landed, "_rows_of_file", rows)
    monkeypatch.setattr(audit, "compacted", lambda *_: set())
    return found


def happens(servers: str, topic: str, table: Path, number: int, begin: int, end: int) -> None:
    """Records come, a lease gets them, they land, and the group commits: one page and one file."""
    produce(servers, topic, [(b"x", HOUR)] * (end - begin))
    page = Page(HOUR)
    who = ("job", "c", "h", "L")
    if begin == 0:
        page.add("known", HOUR, ("v", GROUP), ("eu", topic, 0), ("", "", "", ""), 0, -1, 0, -1)
    for event in ("leased", "acknowledged"):
        page.add(event, HOUR, ("v", GROUP), ("eu", topic, 0), who, begin, end - 1, 1, HOUR)
    produce(servers, f"{topic}-journal", [(page.encode("p", "r", number), HOUR)])
    append(table, number, topic, range(begin, end), partitions=1)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"{topic}-group"})
    consumer.commit(offsets=[TopicPartition(topic, 0, end)], asynchronous=False)
    consumer.close()


def test_each_audit_reads_what_came_since_the_one_before(mock_cluster: str, tmp_path: Path, read: Counter[str]) -> None:
    topic, table = new_name("grows"), tmp_path / "table"
    config = AuditJob.model_validate(
        {
            "virtual_cluster": "v",
            "group": GROUP,
            "upstream_group": f"{topic}-group",
            "topics": {"eu": [topic]},
            "clusters": {"eu": {"bootstrap.servers": mock_cluster}},
            "journal": {"cluster": "eu", "topic": f"{topic}-journal"},
            "landed": {"table": str(table)},
            "state": str(tmp_path / "audit"),
            "patience": 0,
        }
    )
    session: Any = Session()
    end = 0
    for number, count in enumerate((2_000, 30, 500, 30)):
        happens(mock_cluster, topic, table, number, end, end + count)
        end += count
        read.clear()
        verdict = audit.next_audit(session, config)
        assert read == {"offsets": count, "pages": 1, "files": 1}
        assert verdict.totals["expected"] == verdict.totals["acknowledged"] == verdict.totals["landed"] == count
        assert verdict.holds
        assert verdict.waiting == 0
    read.clear()
    assert audit.next_audit(session, config).holds
    assert not read, "nothing is new"


def test_of_what_was_read_before_only_what_is_open_and_may_have_been_compacted_is_read_again() -> None:
    open_ = AuditState(baseline=0, seen=500, open=[(400, 409, 0), (450, 450, 0)])
    places = [("eu", "t", number) for number in range(4)]
    memory = Memory(states=dict(zip(places, (open_, open_, AuditState(baseline=0, seen=500), open_), strict=True)))
    logs = [LogOfTopic(0, 900, True), LogOfTopic(0, 900), LogOfTopic(0, 900, True), LogOfTopic(405, 900, True)]
    found = list(audit.left_open(memory, dict(zip(places, logs, strict=True))))
    assert found == [Stretch("eu", "t", 0, 400, 451), Stretch("eu", "t", 3, 405, 451)]

"""Clients of librdkafka that are made again when their files change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from mesh.upstream.renewed import FAILURES, INTERVAL, Renewed

UNUSABLE = KafkaException(KafkaError(KafkaError._INVALID_ARG, "the key is not that of the certificate"))


@dataclass(slots=True)
class Maker:
    """Makes clients with rising numbers, unless there is a problem."""

    now: float = 100.0
    made: int = 0
    problem: Exception | None = None
    retired: list[int] = field(default_factory=list)

    def make(self) -> int:
        if self.problem is not None:
            raise self.problem
        self.made += 1
        return self.made

    def client(self, **properties: str) -> Renewed[int]:
        return Renewed("catalog", properties, self.make, self.retired.append, lambda: self.now)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "client.crt"
    path.write_text("1")
    yield path


def of(maker: Maker, file: Path) -> Renewed[int]:
    return maker.client(**{"ssl.certificate.location": str(file)})


def test_without_files_it_is_made_once() -> None:
    maker = Maker()
    client = maker.client(**{"client.id": "mesh"})
    assert client.current is None
    assert client.get() == 1
    maker.now += 1_000
    assert (client.get(), maker.retired) == (1, [])
    client.forget()
    assert (client.get(), maker.retired) == (2, [])


def test_it_is_made_again_when_a_file_has_changed(file: Path) -> None:
    maker = Maker()
    client = of(maker, file)
    assert client.get() == 1
    file.write_text("22")
    assert client.get() == 1, "the files are looked at every few seconds"
    maker.now += INTERVAL
    assert (client.get(), maker.retired) == (2, [1])
    maker.now += INTERVAL
    assert (client.get(), maker.retired) == (2, [1])


def test_what_cannot_be_used_is_tried_again_while_the_old_one_works(file: Path) -> None:
    maker = Maker(problem=UNUSABLE)
    client = of(maker, file)
    with pytest.raises(KafkaException):
        client.get()
    maker.problem = None
    assert client.get() == 1, "at once"
    file.write_text("22")
    maker.problem = UNUSABLE
    for _ in range(3):
        maker.now += INTERVAL
        assert client.get() == 1
    maker.problem = None
    assert client.get() == 1
    maker.now += INTERVAL
    assert (client.get(), maker.retired) == (2, [1])


def test_it_is_made_again_when_asked(file: Path) -> None:
    """Also without files."""
    for maker, properties in ((Maker(), {}), (Maker(), {"ssl.certificate.location": str(file)})):
        client = maker.client(**properties)
        assert client.get() == 1
        client.renew()
        maker.problem = UNUSABLE
        assert (client.get(), maker.retired) == (1, [])
        maker.problem = None
        assert client.get() == 1, "it is tried every few seconds"
        maker.now += INTERVAL
        assert (client.get(), maker.retired) == (2, [1])
        assert client.get() == 2


def test_each_reason_is_logged_once_and_each_failure_counted(file: Path) -> None:
    maker = Maker()
    client, failures = of(maker, file), FAILURES["catalog"]
    missing = KafkaException(KafkaError(KafkaError._SSL, "no such file"))
    with capture_logs() as logs:
        client.get()
        for number, problem in enumerate((UNUSABLE, UNUSABLE, missing, None, UNUSABLE)):
            if problem is None or number in (0, 4):
                file.write_text("2" * (number + 2))
            maker.problem = problem
            maker.now += INTERVAL
            client.get()
    assert [entry["reason"] for entry in logs] == [
        "the key is not that of the certificate",
        "no such file",
        "the key is not that of the certificate",
    ]
    assert {(entry["event"], entry["client"]) for entry in logs} == {("upstream client not made", "catalog")}
    assert FAILURES["catalog"] == failures + 4

"""The files in the properties of librdkafka."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from mesh.config.properties import refused_properties
from mesh.upstream.property_files import FILES, check_files
from mesh.upstream.renewed import Renewed


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    """A pipe: a client of librdkafka would wait for its other end, and no thread of this process would run."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return str(path)


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_is_refused(name: str, pipe: str) -> None:
    with pytest.raises(KafkaException, match=f"{name}: {pipe} is not a regular file"):
        check_files({name: pipe})


@pytest.mark.parametrize("path", ["", "probe", "/nowhere", "a\0b", __file__, str(Path(__file__).parent)])
def test_librdkafka_judges_everything_else(path: str) -> None:
    check_files({"ssl.ca.location": path, "ssl.key.location": None})


def test_a_pipe_is_a_mistake_in_the_configuration(pipe: str) -> None:
    properties = {"security.protocol": "ssl", "ssl.ca.location": pipe}
    assert [*refused_properties(properties)] == [
        ("ssl.ca.location", f"librdkafka: ssl.ca.location: {pipe} is not a regular file")
    ]


def test_a_file_that_becomes_a_pipe_keeps_the_client(pipe: str, tmp_path: Path) -> None:
    now, made = [0.0], []
    path = tmp_path / "ca.pem"
    path.write_text("1")
    properties = {"ssl.ca.location": str(path)}
    client = Renewed("catalog", properties, lambda: made.append(1) or len(made), clock=lambda: now[0])  # type: ignore[func-returns-value]
    assert client.get() == 1
    path.unlink()
    os.rename(pipe, path)
    now[0] = 10
    assert (client.get(), made) == (1, [1])
    path.unlink()
    path.write_text("2")
    now[0] = 20
    assert client.get() == 2

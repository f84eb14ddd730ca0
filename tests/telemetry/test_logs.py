from __future__ import annotations

import ast
import io
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from mesh.telemetry import logs
from mesh.telemetry.log_writer import LogWriter
from mesh.telemetry.logs import VOCABULARY, configure_logs, get_logger
from mesh.upstream.librdkafka_log import LibrdkafkaLog

SOURCE = Path(__file__).parents[2] / "mesh"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_lines() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    get_logger("mesh.pool").info("member joined", group="billing", slot=7, errors={"eu/orders-0": 27})
    (entry,) = entries(stream)
    assert entry.pop("timestamp").endswith("Z")
    assert entry == {
        "event": "member joined",
        "level": "info",
        "logger": "mesh.pool",
        "group": "billing",
        "slot": 7,
        "errors": {"eu/orders-0": 27},
    }


def test_a_line_of_librdkafka_names_the_cluster_and_the_group() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    template, log = "%s [%s] %s", LibrdkafkaLog(logging.getLogger("librdkafka"))
    log.named("eu", "billing").log(logging.WARNING, template, "SESSTMOUT", "rdkafka#consumer-1", "the session ended")
    log.named("us").log(logging.WARNING, template, "METADATA", "rdkafka#producer-2", "odd")
    of_group, of_cluster = entries(stream)
    assert (of_group["cluster"], of_group["group"], of_group["logger"]) == ("eu", "billing", "librdkafka")
    assert "the session ended" in of_group["event"]
    assert of_cluster["cluster"] == "us"
    assert "group" not in of_cluster


def test_a_logger_made_before() -> None:
    log = get_logger("early")
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    log.info("x")
    assert entries(stream)[0]["logger"] == "early"


@pytest.mark.parametrize(("stream", "is_json"), [(Terminal(), False), (io.StringIO(), True)])
def test_auto(stream: io.StringIO, is_json: bool) -> None:
    configure_logs("info", "auto", stream)
    get_logger("x").warning("hello", group="billing")
    assert stream.getvalue().startswith("{") is is_json
    assert "hello" in stream.getvalue()
    assert "billing" in stream.getvalue()


def test_levels() -> None:
    stream = io.StringIO()
    configure_logs("warning", "json", stream)
    log = get_logger("x")
    for level in ("debug", "info", "warning", "error"):
        getattr(log, level)(level)
    assert [entry["event"] for entry in entries(stream)] == ["warning", "error"]


def test_libraries_go_the_same_way() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 7)
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request from %s", "somebody")
    (entry,) = entries(stream)
    assert (entry["event"], entry["logger"]) == ("Invalid HTTP request from somebody", "uvicorn.error")


@pytest.mark.parametrize("format", ["console", "json"])
def test_no_secrets(format: Any) -> None:
    stream = io.StringIO()
    configure_logs("info", format, stream)
    log = get_logger("x")
    password = "hunter" + str(2)  # not in the source line that a traceback quotes
    log.info("made", sasl_password=password, properties={"sasl.password": password, "client.id": "shown"})
    try:
        raise ValueError("of the test")
    except ValueError:
        log.exception("failed")
    text = stream.getvalue()
    assert "hunter2" not in text
    assert "shown" in text
    assert "ValueError: of the test" in text


@pytest.mark.parametrize("format", ["console", "json"])
def test_what_clients_choose_stays_on_its_line(format: Any) -> None:
    stream = io.StringIO()
    configure_logs("info", format, stream)
    get_logger("x").info("member joined", client_id="a\nb\x1b[31m\r\ud800", member="größe")
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "größe" in text or "gr\\u00f6\\u00dfe" in text


@pytest.mark.parametrize("format", ["console", "json"])
def test_a_traceback_as_text(format: Any) -> None:
    stream = io.StringIO()
    configure_logs("info", format, stream)
    get_logger("x").error("a pool contradicts itself", traceback="Traceback\n  File x\nValueError: y")
    text = stream.getvalue()
    assert "ValueError: y" in text
    assert ("Traceback\n  File x\n" in text) is (format == "console")


def _keys(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_log = isinstance(node.func.value, ast.Name) and node.func.value.id == "log"
            if is_log and node.func.attr in {"debug", "info", "warning", "error", "exception"}:
                yield from (keyword.arg for keyword in node.keywords if keyword.arg)
        # mesh.pool does not log, it reports: Report("member joined", fields)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "fields":
            keys = node.value.keys if isinstance(node.value, ast.Dict) else []
            yield from (str(key.value) for key in keys if isinstance(key, ast.Constant))


def test_one_vocabulary() -> None:
    used = {key for file in SOURCE.rglob("*.py") for key in _keys(ast.parse(file.read_text()))}
    assert {"group", "virtual_cluster", "in_flight"} <= used
    assert used <= VOCABULARY.keys(), "a key of a log entry has to be explained in mesh/telemetry/logs.py"


def test_a_reader_that_stops_reading_stops_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipe takes 64 KiB, and the writer some entries; the rest is left out, and counted when there is room."""
    read, write = os.pipe()
    count = 5_000
    lines: list[str] = []
    with open(read) as reader, open(write, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        writer = LogWriter(stream, logs.report_left_out, most=100)
        monkeypatch.setattr(logs, "_writer", writer)
        configure_logs("info", "json")
        for number in range(count):
            get_logger("mesh").info("stopping", signal=str(number))
        reading = threading.Thread(target=lambda: lines.extend(reader))
        reading.start()
        while not writer.flush():
            pass
        get_logger("mesh").info("stopping", signal=str(count))
        assert writer.flush()
        stream.close()
        reading.join()
    written = [json.loads(line) for line in lines]
    stopping = [int(each["signal"]) for each in written if each["event"] == "stopping"]
    left_out = [each for each in written if each["event"] == "log entries left out"]
    assert stopping == sorted(stopping)
    assert sum(each["left_out"] for each in left_out) == count + 1 - len(stopping) > 0
    assert {each["level"] for each in left_out} == {"warning"}


def test_a_pipe_that_does_not_block_gets_every_entry() -> None:
    """Another process that shares standard error may have set O_NONBLOCK: a full pipe is not a reader that is gone."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    texts = [f"{number} {'x' * 1_000}\n" for number in range(500)]
    lines: list[str] = []
    with open(read) as reader, open(write, "w") as stream:
        writer = LogWriter(stream, lambda count: pytest.fail(f"{count} left out"))
        for text in texts:
            writer.write(text)
        reading = threading.Thread(target=lambda: lines.extend(reader))
        reading.start()
        while not writer.flush():
            pass
        stream.close()
        reading.join()
    assert lines == texts


def test_the_report_of_what_was_left_out_waits_for_no_reader() -> None:
    """Whoever reports holds the lock of a handler, so a report that waited would stop every other thread that logs."""
    read, write = os.pipe()
    reported = threading.Event()
    first, second = "a" * 100_000, "b" * 200_000  # a pipe takes 64 KiB

    def report(count: int) -> None:
        assert count == 1
        writer.write(second)
        reported.set()

    with open(read) as reader, open(write, "w") as stream:
        writer = LogWriter(stream, report, most=1)
        writer.write(first)
        assert reader.read(1) == "a", "the thread has taken it"
        writer.write("c")
        writer.write("left out")
        assert reader.read(len(first) - 1) == first[1:]
        assert reported.wait(60)
        assert reader.read(len(second) + 1) == second + "c"
        assert writer.flush()


def test_everything_is_written_at_the_end() -> None:
    stream = io.StringIO()
    writer = LogWriter(stream, lambda count: pytest.fail(f"{count} left out"))
    for number in range(1_000):
        writer.write(f"{number}\n")
    assert writer.flush()
    assert stream.getvalue().split() == [str(number) for number in range(1_000)]


def test_a_stream_that_is_closed_ends_nothing() -> None:
    stream = io.StringIO()
    stream.close()
    writer = LogWriter(stream, lambda count: pytest.fail(f"{count} left out"))
    for _ in range(3):
        writer.write("a")
    assert writer.flush()

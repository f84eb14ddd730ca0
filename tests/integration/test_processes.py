"""Free ports, for several test processes at once; and probes that are tried again."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from urllib.error import URLError

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.integration.processes import eventually, free_port

ASK = "from tests.integration.processes import free_port; print(free_port(), flush=True); input()"


def test_a_port_is_given_to_one_process_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not listen yet: a broker takes seconds until it does."""
    mine = free_port()
    with subprocess.Popen([sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        drawn = chain([mine, theirs], range(20_000, 32_000))
        monkeypatch.setattr(random.SystemRandom, "randrange", lambda *_: next(drawn))
        assert free_port() not in (mine, theirs)
        other.stdin.close()
        other.wait(20)
    monkeypatch.setattr(random.SystemRandom, "randrange", lambda *_: theirs)
    assert free_port() == theirs


@pytest.mark.parametrize(
    "late",
    [
        TimeoutError(),
        URLError(TimeoutError()),
        KafkaException(KafkaError(KafkaError._TIMED_OUT)),
        KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT)),
    ],
    ids=repr,
)
def test_a_probe_without_an_answer_in_time_is_tried_again(late: Exception) -> None:
    answers: Iterator[Exception | str] = iter([late, "", late, "there"])

    def probe() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert eventually("an answer", probe, interval=0) == "there"


@pytest.mark.parametrize(
    "failure", [ConnectionRefusedError(), KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))], ids=repr
)
def test_a_probe_that_fails_otherwise_is_not(failure: Exception) -> None:
    def probe() -> None:
        raise failure

    with pytest.raises(type(failure)):
        eventually("an answer", probe)


def test_an_answer_that_never_comes_in_time_is_named() -> None:
    def probe() -> None:
        raise TimeoutError("no answer")

    with pytest.raises(AssertionError, match=r"not within 0 s: an answer .*TimeoutError"):
        eventually("an answer", probe, timeout=0, interval=0)

"""Token keys from a URL: when the mesh fetches them, and how it answers logins until it has them."""

from __future__ import annotations

import asyncio
import http.server
import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import BadStatusLine, IncompleteRead, InvalidURL

import anyio
import pytest
from structlog.testing import capture_logs

from mesh.listener import jwks
from mesh.listener.jwks import LARGEST, LONGEST, MOST_WANTED, SHORTEST_INTERVAL, JwksSource, fetch, fetch_in_thread
from mesh.listener.security import Tokens
from mesh.security.oauthbearer import TokenKeys, TokenRules, keys_of_jwks
from mesh.security.sasl import Failure, Success
from tests.fake_time import in_fake_time
from tests.security.test_oauthbearer import NOW, OTHER_RSA, RSA, jwk, token

INTERVAL = 300.0
OLD = json.dumps({"keys": [jwk(RSA, "old")]}).encode()
ROTATED = json.dumps({"keys": [jwk(RSA, "old"), jwk(OTHER_RSA, "new")]}).encode()
BY_OLD, BY_NEW = token(RSA, key_id="old"), token(OTHER_RSA, key_id="new")
BY_UNKNOWN = token(OTHER_RSA, key_id="unknown")


def ids(keys: TokenKeys) -> set[str | None]:
    return {key.key_id for key in keys.all}


@dataclass(slots=True)
class Issuer:
    """Publishes keys, unless it is down. fetched: the times of requests; seconds: how long it takes."""

    published: bytes = OLD
    is_down: bool = False
    seconds: float = 0.0
    problem: Exception | None = None
    """What a fetch raises instead of returning keys."""
    fetched: list[float] = field(default_factory=list)

    async def fetch(self) -> TokenKeys:
        self.fetched.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.seconds)
        if self.is_down:
            raise OSError("connection refused")
        if self.problem is not None:
            raise self.problem
        return keys_of_jwks(self.published)


@dataclass(slots=True)
class Bench:
    issuer: Issuer = field(default_factory=Issuer)
    tokens: Tokens = field(default_factory=lambda: Tokens(TokenRules(audiences=("kafka",)), None))

    @property
    def fetches(self) -> int:
        return len(self.issuer.fetched)

    def told(self, text: str) -> str:
        """The result of a token: a principal, or the reason of a failure."""
        step = self.tokens.check(text, NOW)
        return step.principal if isinstance(step, Success) else step.reason

    @contextmanager
    def running(self) -> Iterator[None]:
        source = JwksSource(
            "https://reader:s3cret@issuer:8443/s3cret/keys?key=s3cret#s3cret", self.tokens, INTERVAL, self.issuer.fetch
        )
        self.tokens.refresh = source.refresh_soon
        task = asyncio.get_running_loop().create_task(source.keep_fresh())
        try:
            yield
        finally:
            task.cancel()


@in_fake_time
async def test_keys_are_fetched_at_the_start_and_again_and_again() -> None:
    bench = Bench()
    with bench.running():
        await asyncio.sleep(1)
        assert bench.told(BY_OLD) == "User:alice"
        await asyncio.sleep(3 * (INTERVAL + SHORTEST_INTERVAL))
        assert bench.fetches == 4


@in_fake_time
async def test_a_client_that_comes_before_the_keys_comes_again() -> None:
    bench = Bench(Issuer(is_down=True))
    with bench.running(), capture_logs() as logs:
        await asyncio.sleep(1)
        assert bench.told(BY_OLD) == "busy"
        bench.issuer.is_down = False
        await asyncio.sleep(SHORTEST_INTERVAL + 0.1)
        assert bench.told(BY_OLD) == "User:alice"
    assert [entry["event"] for entry in logs][-1] == "token keys fetched again"


@in_fake_time
async def test_rotated_keys_are_found_by_the_first_token_that_names_one() -> None:
    """After an error a Java client would give up: so the mesh looks for new keys before it answers."""
    bench = Bench()
    with bench.running():
        await asyncio.sleep(60)
        bench.issuer.published = ROTATED
        assert bench.told(BY_NEW) == "busy"
        await asyncio.sleep(0.1)
        assert bench.fetches == 2
        assert bench.told(BY_NEW) == bench.told(BY_OLD) == "User:alice"


@in_fake_time
async def test_a_key_that_rotates_right_after_a_fetch_is_found_too() -> None:
    """A Java client whose login is called wrong ends."""
    bench = Bench()
    with bench.running():
        await asyncio.sleep(60)
        assert bench.told(BY_UNKNOWN) == "busy"
        await asyncio.sleep(0.1)
        assert bench.fetches == 2
        bench.issuer.published = ROTATED
        assert [bench.told(BY_UNKNOWN), bench.told(BY_NEW)] == ["unknown_key", "busy"]
        await asyncio.sleep(SHORTEST_INTERVAL)
        assert bench.fetches == 3
        assert bench.told(BY_NEW) == "User:alice"


@in_fake_time
async def test_key_ids_of_clients_take_little_memory() -> None:
    bench = Bench(Issuer(is_down=True))
    bench.tokens.keys = keys_of_jwks(OLD)
    with bench.running():
        await asyncio.sleep(1)
        told = Counter(bench.told(token(OTHER_RSA, key_id=f"id-{number}")) for number in range(MOST_WANTED + 10))
    assert told == {"busy": MOST_WANTED, "unknown_key": 10}


@in_fake_time
async def test_a_key_that_nobody_has_is_refused_and_asks_no_more_often_than_is_allowed() -> None:
    bench = Bench()
    with bench.running():
        await asyncio.sleep(60)
        assert bench.told(BY_NEW) == "busy"
        await asyncio.sleep(0.1)
        assert bench.told(BY_NEW) == "unknown_key"
        before = bench.fetches
        for _ in range(1_000):
            bench.told(BY_NEW)
            await asyncio.sleep(0.1)
        assert bench.fetches - before <= 100 / SHORTEST_INTERVAL + 1
        times = bench.issuer.fetched
        assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= SHORTEST_INTERVAL


@in_fake_time
async def test_while_the_issuer_is_down_the_keys_stay_and_it_is_told_once() -> None:
    bench = Bench()
    with bench.running(), capture_logs() as logs:
        await asyncio.sleep(1)
        bench.issuer.is_down = True
        await asyncio.sleep(2 * INTERVAL)
        assert bench.told(BY_OLD) == "User:alice"
        assert bench.told(BY_NEW) == "busy"  # it may be valid
        assert bench.fetches >= 2
        (entry,) = logs
        assert (entry["log_level"], entry["reason"]) == ("warning", "connection refused")
        assert entry["issuer"] == "issuer:8443"
        bench.issuer.is_down, bench.issuer.published = False, ROTATED
        await asyncio.sleep(SHORTEST_INTERVAL + 1)
        assert bench.told(BY_NEW) == "User:alice"
        assert len(logs) == 2


@in_fake_time
async def test_whatever_the_fetch_raises_the_keys_stay() -> None:
    for problem in (BadStatusLine("\x15\x03"), IncompleteRead(b""), InvalidURL("port"), KeyError(), RecursionError()):
        bench = Bench()
        with bench.running(), capture_logs() as logs:
            await asyncio.sleep(1)
            bench.issuer.problem = problem
            await asyncio.sleep(2 * INTERVAL)
            assert bench.told(BY_OLD) == "User:alice"
            bench.issuer.problem = None
            bench.told(BY_NEW)
            await asyncio.sleep(SHORTEST_INTERVAL + 1)
        assert [each["event"] for each in logs] == ["token keys cannot be fetched", "token keys fetched again"]
        assert [each["issuer"] for each in logs] == ["issuer:8443", "issuer:8443"], "secrets may be in the rest"


@in_fake_time
async def test_an_issuer_that_never_ends_its_answer_is_given_up() -> None:
    bench = Bench(Issuer(seconds=10_000.0))
    with bench.running(), capture_logs() as logs:
        await asyncio.sleep(LONGEST + 1)
        assert "not finished" in logs[0]["reason"]
        bench.issuer.seconds = 0.0
        await asyncio.sleep(SHORTEST_INTERVAL)
        assert bench.told(BY_OLD) == "User:alice"


# Over HTTP


@contextmanager
def served(answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):  # the client has gone
                answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/keys"
        finally:
            server.shutdown()


def answering(body: bytes, status: int = 200) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def test_a_key_set_over_http() -> None:
    with served(answering(OLD)) as url:
        assert ids(fetch(url, threading.Lock())) == {"old"}


@pytest.mark.parametrize(
    ("body", "status", "wanted"),
    [
        (OLD, 500, "500"),
        (b"<html>", 200, "not a JSON web key set"),
        (b" " * (LARGEST + 1), 200, "more than"),
    ],
)
def test_what_is_no_key_set(body: bytes, status: int, wanted: str) -> None:
    one_at_a_time = threading.Lock()
    with served(answering(body, status)) as url, pytest.raises((OSError, ValueError), match=wanted):
        fetch(url, one_at_a_time)
    assert not one_at_a_time.locked()


@pytest.mark.parametrize(
    "answer",
    [
        b"\x15\x03\x01\x00\x02\x02\x50",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1_000 + b"\r\n",
        b"",
    ],
    ids=["a TLS alert", "half a chunk", "half a body", "too many headers", "nothing"],
)
def test_an_answer_that_is_no_http(answer: bytes) -> None:
    one_at_a_time = threading.Lock()

    def send(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.wfile.write(answer)

    with served(send) as url, pytest.raises((OSError, ValueError)):
        fetch(url, one_at_a_time)
    assert not one_at_a_time.locked()


@pytest.mark.parametrize("key_id", [["a"], {}, 7, None])
def test_an_odd_key_id_is_none(key_id: object) -> None:
    keys = json.loads(OLD)
    keys["keys"][0]["kid"] = key_id
    with served(answering(json.dumps(keys).encode())) as url:
        found = fetch(url, threading.Lock())
    assert not any(isinstance(key.key_id, str) for key in found.all)


def test_a_key_set_that_is_nested_too_deep() -> None:
    with served(answering(b"[" * 100_000)) as url, pytest.raises(ValueError, match="not a JSON web key set"):
        fetch(url, threading.Lock())


def test_nobody_there() -> None:
    with served(answering(OLD)) as url:
        pass
    with pytest.raises(OSError, match="refused"):
        fetch(url, threading.Lock())


def test_an_issuer_that_drips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes within the time limit for silence."""
    monkeypatch.setattr(jwks, "LONGEST", 0.2)
    ended = threading.Event()

    def drip(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not ended.wait(0.02):
            handler.wfile.write(b" ")

    with served(drip) as url:
        try:
            with pytest.raises(TimeoutError):
                fetch(url, threading.Lock())
        finally:
            ended.set()


def test_the_loop_goes_on_while_an_issuer_is_silent_and_nothing_piles_up() -> None:
    asked, answer = threading.Event(), threading.Event()

    def silent(handler: http.server.BaseHTTPRequestHandler) -> None:
        asked.set()
        answer.wait(20)
        answering(OLD)(handler)

    async def run(url: str) -> None:
        one_at_a_time = threading.Lock()
        with anyio.move_on_after(60) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fetch_in_thread, url, one_at_a_time)
                assert await anyio.to_thread.run_sync(asked.wait, 20)  # so the loop keeps running
                tasks.cancel_scope.cancel()
        assert not scope.cancelled_caught
        with pytest.raises(OSError, match="earlier fetch"):
            await fetch_in_thread(url, one_at_a_time)
        answer.set()
        assert await anyio.to_thread.run_sync(one_at_a_time.acquire, True, 20)
        one_at_a_time.release()
        assert ids(await fetch_in_thread(url, one_at_a_time)) == {"old"}

    with served(silent) as url:
        try:
            anyio.run(run, url)
        finally:
            answer.set()


def test_what_is_told_to_a_token_of_an_unknown_key_where_keys_come_from_no_url() -> None:
    tokens = Tokens(TokenRules(audiences=("kafka",)), keys_of_jwks(OLD))
    step = tokens.check(BY_NEW, NOW)
    assert isinstance(step, Failure)
    assert step.reason == "unknown_key"

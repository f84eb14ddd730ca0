"""The admin address of several workers: one response stands for all of them.

`/workers/NUMBER/...` is the admin address of one worker; its page is `/workers/NUMBER/`. A lease belongs to one worker,
so leases are only there.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import anyio
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from mesh.admin.access import READING
from mesh.admin.http import INDEX, readiness
from mesh.admin.page import page
from mesh.listener import certificates
from mesh.listener.watched_files import Watched
from mesh.supervision.merging import (
    Families,
    longest_held,
    merged_drain,
    merged_leases,
    merged_metrics,
    merged_peers,
    merged_readiness,
    merged_replay,
    merged_replays,
    merged_status,
)
from mesh.supervision.worker_process import WorkerProcess, WorkerRequest, WorkerResponse, WorkerUnavailable
from mesh.telemetry.metric_definitions import CERTIFICATE_ENDS_SOON, CERTIFICATE_EXPIRY, WORKER_RESTARTS, WORKER_UP
from mesh.telemetry.metrics import Metrics
from mesh.telemetry.task_health import TaskHealth

LONGEST_READ: Final = 10.0
LONGEST_CHANGE: Final = 90.0
"""Seconds that a response may take: a request for a lease may wait."""
LONGEST_BODY: Final = 2 << 20
"""The most bytes of a request."""
_NO_TOKEN: Final = "the admin address has no token (admin.token): changes and records are on loopback addresses only"
_LEASES: Final = "a lease belongs to one worker: use /workers/NUMBER/leases"
_INDEX: Final = INDEX + "/workers/NUMBER/  all of this of one worker\n"


SUPERVISOR: Final = 0
"""The number of the supervisor in the label `worker`."""
_OWN: Final = frozenset({"kafka_mesh_task_failures", CERTIFICATE_EXPIRY.name, CERTIFICATE_ENDS_SOON.name})
"""The metrics of the supervisor that are shown beside those of the workers."""


class WorkersAdmin:
    """The admin address of all workers. may_change: returns True if all callers may change something. reload: makes all
    workers read the configuration again; returns the HTTP status and body."""

    def __init__(
        self,
        workers: Sequence[WorkerProcess],
        may_change: Callable[[], bool],
        reload: Callable[[], Awaitable[tuple[int, Mapping[str, Any]]]],
        metrics: Metrics,
        task_health: TaskHealth,
        watched: Sequence[Watched[Any]] = (),
    ) -> None:
        """metrics, task_health: those of the supervisor itself. watched: the files of the admin address."""
        self._metrics_of_supervisor = metrics
        self._task_health = task_health
        self._watched = watched
        self._workers = workers
        self._may_change = may_change
        self._reload = reload

    def app(self) -> Starlette:
        get, changing = ["GET"], ["GET", "POST", "DELETE"]
        routes = [
            Route("/", self._index, methods=get),
            Route("/healthz", self._healthz, methods=get),
            Route("/readyz", self._readyz, methods=get),
            Route("/status", self._status, methods=get),
            Route("/metrics", self._metrics, methods=get),
            Route("/topologies", self._first, methods=get),
            Route("/peers", self._peers, methods=get),
            Route("/openapi.json", self._first, methods=get),
            Route("/drain", self._guarded(self._drain), methods=changing),
            Route("/reload", self._guarded(self._answer_reload), methods=["GET", "POST"]),
            Route("/records", self._guarded(self._records, also_reading=True), methods=["GET", "POST"]),
            Route("/replays", self._guarded(self._replays, also_reading=True), methods=changing),
            Route("/leases", self._guarded(self._leases, also_reading=True), methods=["GET", "POST"]),
            Route("/workers/{number:int}/{path:path}", self._guarded(self._of_one), methods=changing),
        ]
        return Starlette(routes=routes)

    # Answers for all workers

    async def _index(self, request: Request) -> Response:
        return page() if "text/html" in request.headers.get("accept", "") else PlainTextResponse(_INDEX)

    async def _healthz(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, request: Request) -> Response:
        answers = await self._ask_all(request)
        missing = [each.number for each in self._workers if each.number not in answers]
        bodies = {number: each.json() for number, each in answers.items()}
        degraded = self._task_health.described() + certificates.degraded(self._watched, time.time())
        bodies[SUPERVISOR] = {"problems": [], "degraded": degraded}
        return readiness(request, merged_readiness(bodies, missing))

    async def _status(self, request: Request) -> Response:
        answers = {number: each.json() for number, each in (await self._ask_all(request)).items()}
        workers = [
            {"number": each.number, "pid": each.pid, "restarts": each.restarts, "answers": each.number in answers}
            for each in self._workers
        ]
        if not answers:
            return JSONResponse({"virtual_clusters": [], "configuration": {}, "workers": workers})
        return JSONResponse({**merged_status(answers), "workers": workers})

    async def _metrics(self, request: Request) -> Response:
        answers = await self._ask_all(request)
        texts = {number: each.body.decode() for number, each in answers.items()}
        own = self._own_families(frozenset(texts))
        families = self._metrics_of_supervisor.families()
        shown = [each for each in families if each is not None and each.name in _OWN]
        texts[SUPERVISOR] = generate_latest(Families(shown)).decode()
        exposition = await anyio.to_thread.run_sync(merged_metrics, texts, own)
        return Response(exposition, headers={"content-type": CONTENT_TYPE_LATEST})

    def _own_families(self, answering: frozenset[int]) -> list[Metric]:
        up = GaugeMetricFamily(WORKER_UP.name, WORKER_UP.help, labels=WORKER_UP.labels)
        restarts = CounterMetricFamily(WORKER_RESTARTS.name, WORKER_RESTARTS.help, labels=WORKER_RESTARTS.labels)
        for each in self._workers:
            up.add_metric([str(each.number)], each.number in answering)
            restarts.add_metric([str(each.number)], each.restarts)
        return [up, restarts]

    async def _peers(self, request: Request) -> Response:
        answers = await self._ask_all(request)
        return JSONResponse(merged_peers({number: each.json() for number, each in answers.items()}))

    async def _first(self, request: Request) -> Response:
        """Returns the response of any worker, where all would answer alike."""
        return _response(next(iter((await self._ask_all(request)).values()), None))

    async def _drain(self, request: Request) -> Response:
        answers = await self._ask_all(request)
        refused = next((each for each in answers.values() if each.status != 200), None)
        if refused is not None or not answers:
            return _response(refused)
        return JSONResponse(merged_drain({number: each.json() for number, each in answers.items()}))

    async def _answer_reload(self, request: Request) -> Response:
        if request.method in READING:
            return await self._first(request)
        status, body = await self._reload()
        return JSONResponse(body, status_code=status)

    async def _records(self, request: Request) -> Response:
        """Returns the response of the worker that has the partition."""
        if request.method in READING:
            answers = await self._ask_all(request)
            found = {number: each.json() for number, each in answers.items() if each.status == 200}
            return JSONResponse(longest_held(found)) if found else _refusal(answers)
        refused: dict[int, WorkerResponse] = {}
        for worker in self._workers:
            try:
                answer = await _pass_on(worker, request, request.url.path)
            except WorkerUnavailable:
                continue
            if answer.status == 200:
                return _response(answer)
            refused[worker.number] = answer
        return _refusal(refused)

    async def _replays(self, request: Request) -> Response:
        """Merges the workers' responses about replays. A replay has the same name in all workers. A worker that has no
        partition of it refuses, which does not count."""
        more = ""
        if request.method == "POST" and "replay" not in request.query_params:
            more = f"replay={secrets.token_hex(4)}"
        answers = await self._ask_all(request, more)
        done = [each.json() for each in answers.values() if each.status == 200]
        if not done:
            wrong = next((each for each in answers.values() if each.status == 400), None)
            return _response(wrong) if wrong is not None else _refusal(answers)
        if request.method in READING:
            return JSONResponse({"replays": merged_replays(each for body in done for each in body["replays"])})
        return JSONResponse(merged_replay(done))

    async def _leases(self, request: Request) -> Response:
        if request.method not in READING:
            return JSONResponse({"error": "of_one_worker", "detail": _LEASES}, status_code=400)
        answers = await self._ask_all(request)
        return JSONResponse(merged_leases({number: each.json() for number, each in answers.items()}))

    async def _of_one(self, request: Request) -> Response:
        number, path = request.path_params["number"], "/" + request.path_params["path"]
        worker = next((each for each in self._workers if each.number == number), None)
        if worker is None:
            return JSONResponse({"problem": f"worker: {number}, not one from 1 to {len(self._workers)}"}, 404)
        is_shown_to_all = request.method in READING and not path.startswith(("/records", "/replays", "/leases"))
        if not is_shown_to_all and not self._may_change():
            return JSONResponse({"problem": _NO_TOKEN}, status_code=403)
        try:
            return _response(await _pass_on(worker, request, path))
        except WorkerUnavailable as problem:
            return JSONResponse({"problem": str(problem)}, status_code=503)

    # Internals

    def _guarded(
        self, answer: Callable[[Request], Awaitable[Response]], also_reading: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            if (also_reading or request.method not in READING) and not self._may_change():
                return JSONResponse({"problem": _NO_TOKEN}, status_code=403)
            return await answer(request)

        return guarded

    async def _ask_all(self, request: Request, more: str = "") -> dict[int, WorkerResponse]:
        """Returns the responses of the workers that answer, in the order of their numbers. more: additional keys of the
        query."""
        answers: dict[int, WorkerResponse] = {}

        async def ask(worker: WorkerProcess) -> None:
            try:
                answers[worker.number] = await _pass_on(worker, request, request.url.path, more)
            except WorkerUnavailable:
                return

        async with anyio.create_task_group() as tasks:
            for worker in self._workers:
                tasks.start_soon(ask, worker)
        return dict(sorted(answers.items()))


async def _pass_on(worker: WorkerProcess, request: Request, path: str, more: str = "") -> WorkerResponse:
    query = "&".join(each for each in (request.url.query, more) if each)
    length = int(request.headers.get("content-length") or 0)
    if length > LONGEST_BODY:
        return WorkerResponse(413, "application/json", b'{"problem": "the body is too long"}')
    body = await request.body() if length else b""
    kept = {name: value for name in ("accept", "content-type") if (value := request.headers.get(name)) is not None}
    deadline = LONGEST_CHANGE if request.method == "POST" else LONGEST_READ
    method = "GET" if request.method in READING else request.method  # a HEAD answer has no body
    return await worker.ask(WorkerRequest(method, f"{path}?{query}" if query else path, body, kept, deadline))


def _refusal(answers: Mapping[int, WorkerResponse]) -> Response:
    """The response if every worker has refused, each for its own reason."""
    if not answers:
        return _response(None)
    problems = {number: each.json()["problem"] for number, each in answers.items()}
    text = next(iter(problems.values()))
    if len(set(problems.values())) > 1:
        text = "; ".join(f"worker {number}: {problem}" for number, problem in problems.items())
    return JSONResponse({"problem": text}, status_code=max(each.status for each in answers.values()))


def _response(answer: WorkerResponse | None) -> Response:
    if answer is None:
        return JSONResponse({"problem": "no worker answers"}, status_code=503)
    return Response(answer.body, answer.status, headers={"content-type": answer.content_type})

"""Every start of a task or a thread: code awaits it, or it has an owner (`mesh.tasks`). A new one fails this test."""

from __future__ import annotations

import ast
import asyncio
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from uvicorn.protocols.http.h11_impl import H11Protocol

from mesh.admin.connections import AdminProtocol
from mesh.tasks import Owner, TaskName

ROOT = Path(__file__).parents[1]
CALLBACKS = {
    "add_done_callback",
    "add_reader",
    "add_writer",
    "call_at",
    "call_later",
    "call_soon",
    "call_soon_threadsafe",
}
OF_PROTOCOLS = {
    name
    for protocol in (asyncio.Protocol, asyncio.BufferedProtocol, asyncio.DatagramProtocol, asyncio.SubprocessProtocol)
    for name in dir(protocol)
    if not name.startswith("_")
}
"""The calls of the event loop to connections."""
WITHOUT_GUARD = {
    "ClientTransport.pause_writing": "called by GuardedConnection",
    "ClientTransport.resume_writing": "called by GuardedConnection",
    "GuardedConnection.connection_lost": "ClientTransport.end has the guard",
    "Leg.eof_received": "returns a constant",
    "Leg.pause_writing": "_full has the guard",
    "Leg.resume_writing": "_full has the guard",
    "RequestConnection.connection_lost": "only fails futures",
    "RequestConnection.connection_made": "sets an attribute",
    "RequestConnection.eof_received": "returns a constant",
}
STARTS = {"create_task", "ensure_future", "run_coroutine_threadsafe", "run_in_executor", "start_soon", "submit"}
THREADS = {"Thread", "ThreadPoolExecutor"}

AWAITED = Counter(
    {
        "app/peers.py:Peers.ask_all": 1,
        "app/reconfiguring.py:Reconfiguring._leave": 2,
        "app/virtual_clusters.py:VirtualClusters.stop": 3,
        "commands/findings.py:of_brokers": 2,
        "runtime/entity_router/groups/services.py:GroupServices.learn": 1,
        "runtime/entity_router/leaves.py:any_of": 1,
        "runtime/entity_router/metadata.py:RouterMetadata._ask": 1,
        "runtime/entity_router/moves/copier.py:Copier.run": 1,
        "runtime/entity_router/moves/mover.py:Mover._copy": 1,
        "runtime/one_node/requests.py:OneNodeRouter._begin": 1,
        "runtime/relay/nodes.py:RelayNodes._ask_versions": 1,
        "runtime/request_router/route_interception.py:_begin": 1,
        "runtime/topologies/plugin_calls.py:PluginCalls._outcome": 1,
        "supervision/admin.py:WorkersAdmin._ask_all": 1,
        "supervision/supervisor.py:Supervisor.run": 2,
        "supervision/worker_process.py:WorkerProcess._run_process": 1,
        "upstream/groups/descriptions.py:GroupsByLinks._on_loop": 1,
        "upstream/links/connection.py:BrokerLink._connected": 1,
        "upstream/links/nodes.py:Nodes.ask_any": 1,
    }
)
"""Groups that are left before the function returns, and tasks whose results code takes."""
OF_ENGINES = Counter(
    {
        "upstream/raw/engine.py:RawEngine._run": 2,
        "upstream/raw/engine.py:RawEngine.subscribe": 1,
        "upstream/raw/fetching.py:Fetching._open_lanes": 1,
        "upstream/raw/fetching.py:Fetching.run": 1,
        "upstream/raw/own_commits.py:OwnCommits._begin": 1,
        "upstream/raw/rereading.py:Rereading.run": 1,
        "upstream/raw/resets.py:Resets.check": 1,
        "upstream/raw/resets.py:Resets.out_of_range": 1,
        "upstream/raw/resets.py:Resets.start_over": 1,
    }
)
"""The tasks of an undecoded engine. Their failure is the event EngineFailed, and another engine is made."""
IN_THREADS = Counter(
    {
        "listener/authentication.py:Authenticator.__init__": 1,
        "listener/authentication.py:Authenticator._take": 1,
        "telemetry/log_writer.py:LogWriter.write": 1,
        "telemetry/otlp/tracing.py:Tracing.__init__": 1,
        "telemetry/otlp/tracing.py:Tracing.close": 1,
        "topology_plugins/http.py:_in_thread": 1,
        "upstream/catalog.py:TopicCatalog.__init__": 1,
        "upstream/store/topic.py:StoreTopic.__init__": 1,
        "upstream/tokens/source.py:TokenSource.request": 1,
        "upstream/writers/dead_letters.py:DeadLetterWriter.write": 1,
        "upstream/writers/journal.py:JournalWriter.__init__": 1,
    }
)
"""Threads that guard each piece of their work. What ends them all the same goes to `threading.excepthook`."""
OWNED = Counter({"tasks.py:Tasks.keep": 1, "tasks.py:Tasks.start": 1, "tasks.py:begin": 1, "tasks.py:keep": 1})

GUARDED_INSIDE = Counter(
    {
        "listener/authentication.py:Authenticator._schedule_checked": 1,
        "runtime/entity_router/metadata.py:RouterMetadata._ask": 1,
        "runtime/pool/step_loop.py:StepLoop._arm": 1,
        "runtime/pool/step_loop.py:StepLoop._tick": 1,
        "runtime/pool/step_loop.py:StepLoop.carry_out": 1,
        "runtime/pool/step_loop.py:StepLoop.schedule": 1,
        "tasks.py:no_buffer": 1,
        "upstream/events.py:EventChannel._wake": 1,
        "upstream/groups/descriptions.py:_then": 1,
        "upstream/links/connection.py:BrokerLink._connected": 1,
        "upstream/raw/engine.py:RawEngine.commit": 1,
    }
)
"""Callbacks that report each failure themselves, or pass on the failure of a task to the code that awaits it."""
OF_ONE_STEP = Counter(
    {
        "admin/connections.py:AdminServer._accept": 1,
        "app/worker.py:ThisWorker.watch_supervisor": 1,
        "listener/authentication.py:Authenticator._take": 1,
        "listener/listener.py:Listener.connected": 1,
        "runtime/connection_router/connection.py:ChoosingConnection.opened": 1,
        "runtime/connection_router/runtime.py:ConnectionRouterRuntime.route_chosen": 1,
        "runtime/entity_router/moves/mover.py:Mover._begin": 2,
        "runtime/entity_router/request_room.py:RequestRoom._grant": 1,
        "runtime/interception/workers.py:Workers._go": 1,
        "runtime/one_node/fetches.py:ClientFetches._ask": 1,
        "runtime/pool/share_groups.py:ShareGroups._begin": 1,
        "runtime/pool/tool_queries.py:ToolQueries.ask": 1,
        "runtime/relay/connection.py:RelayConnection.opened": 1,
        "runtime/relay/graceful_stop.py:close_clients": 1,
        "runtime/request_router/connection.py:RequestRouterConnection.opened": 1,
        "tasks.py:_kept": 1,
        "tasks.py:reporting.from_thread": 1,
        "thread_tasks.py:ThreadTask.ended": 1,
        "thread_tasks.py:ThreadTask.failed": 1,
        "thread_tasks.py:ThreadTask.works": 1,
        "topology_plugins/http.py:_in_thread.ask": 1,
        "upstream/librdkafka/consumer_thread.py:ConsumerThread.stop": 1,
        "upstream/links/leg.py:Leg.close": 1,
        "upstream/raw/fetching.py:Fetching._answer": 1,
        "upstream/raw/fetching.py:Fetching._delay": 1,
        "upstream/raw/fetching.py:Fetching._run": 1,
        "upstream/store/store.py:TopicStore._write_record.report_end": 1,
    }
)
"""Callbacks that set an event or a future, close a transport, or take something out of a collection."""


def callbacks(node: ast.AST, path: tuple[str, ...], guards: Collection[str]) -> Iterator[str]:
    """Yields the places of callbacks without a guard. guards: names of functions with one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from callbacks(child, (*path, child.name), guards)
            continue
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr in CALLBACKS:
            arguments = [ast.unparse(each) for each in child.args]
            if not any(each in guards or "guarded(" in each for each in arguments):
                yield ".".join(path)
        yield from callbacks(child, path, guards)


def guards_in(tree: ast.AST) -> set[str]:
    assigned = (
        each for each in ast.walk(tree) if isinstance(each, ast.Assign) and "guarded(" in ast.unparse(each.value)
    )
    return {ast.unparse(target) for each in assigned for target in each.targets}


def starts(node: ast.AST, path: tuple[str, ...]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from starts(child, (*path, child.name))
            continue
        if isinstance(child, ast.Call):
            match child.func:
                case ast.Attribute(attr=name) | ast.Name(id=name) if name in STARTS | THREADS:
                    yield ".".join(path)
        yield from starts(child, path)


def test_no_task_begins_without_an_owner() -> None:
    found: Counter[str] = Counter()
    for file in sorted((ROOT / "mesh").rglob("*.py")):
        place = file.relative_to(ROOT / "mesh")
        found.update(f"{place}:{each}" for each in starts(ast.parse(file.read_text()), ()))
    known = AWAITED + OF_ENGINES + IN_THREADS + OWNED
    assert not found - known, "begin it by mesh.tasks, or await it and list it here"
    assert not known - found, "no longer there"


def test_no_callback_is_without_a_guard() -> None:
    found: Counter[str] = Counter()
    for file in sorted((ROOT / "mesh").rglob("*.py")):
        place, tree = file.relative_to(ROOT / "mesh"), ast.parse(file.read_text())
        found.update(f"{place}:{each}" for each in callbacks(tree, (), guards_in(tree)))
    known = GUARDED_INSIDE + OF_ONE_STEP
    assert not found - known, "use mesh.tasks.guarded, or list it here"
    assert not known - found, "no longer there"


def has_guard(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Returns True if the last statement of a method is a guard. Only assignments are before it."""
    *before, last = method.body
    is_plain = all(isinstance(each, ast.Assign | ast.Expr | ast.If) for each in before)
    match last:
        case ast.Try(handlers=handlers):
            return is_plain and any(ast.unparse(each).startswith("except BaseException") for each in handlers)
        case ast.With():
            return is_plain and "self._guard(" in ast.unparse(last.items[0])
    return False


def test_calls_of_the_event_loop_to_connections_have_guards() -> None:
    """Each method that asyncio calls catches everything, since uvloop reports no OSError, and nothing out of
    `get_buffer`. A class counts by its methods, whatever it inherits."""
    found: set[str] = set()
    for file in sorted((ROOT / "mesh").rglob("*.py")):
        for each in ast.walk(ast.parse(file.read_text())):
            if isinstance(each, ast.ClassDef):
                methods = [it for it in each.body if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)]
                found.update(
                    f"{each.name}.{it.name}" for it in methods if it.name in OF_PROTOCOLS and not has_guard(it)
                )
    assert found == set(WITHOUT_GUARD)


def test_the_admin_address_guards_every_call_that_uvicorn_implements() -> None:
    inherited = {name for name in OF_PROTOCOLS & set(vars(H11Protocol)) if name not in vars(AdminProtocol)}
    assert inherited == {"eof_received"}, "it does nothing"
    assert H11Protocol.eof_received.__code__.co_code == (lambda self: None).__code__.co_code


def test_every_kind_of_owner_has_tasks() -> None:
    assert {name.owner for name in TaskName} == set(Owner)

"""Every start of a task or a thread: code awaits it, or it has an owner (`mesh.tasks`). A new one fails this test."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mesh.tasks import Owner, TaskName

ROOT = Path(__file__).parents[1]
STARTS = {"create_task", "ensure_future", "run_coroutine_threadsafe", "run_in_executor", "start_soon", "submit"}
THREADS = {"Thread", "ThreadPoolExecutor"}

AWAITED = Counter(
    {
        "app/peers.py:Peers.ask_all": 1,
        "app/reconfiguring.py:Reconfiguring._apply": 2,
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


def test_every_kind_of_owner_has_tasks() -> None:
    assert {name.owner for name in TaskName} == set(Owner)

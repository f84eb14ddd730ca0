"""Writes the pages of docs/ that are generated from code: `make reference`."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final

import typer.main
import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from mesh.apis.listener_table import LISTENER_TABLE
from mesh.cli import app
from mesh.config import Config
from mesh.pool.apis.table import TABLE
from mesh.routing.kit.union_apis import UNION_APIS
from mesh.routing.one_node.one_node_apis import ONE_NODE_APIS
from mesh.telemetry.logs import VOCABULARY
from mesh.telemetry.metric_definitions import FAMILIES, WORKER_RESTARTS, WORKER_UP, MetricSample
from mesh.telemetry.metrics import Metrics
from mesh.wire.errors import ErrorCode
from mesh.wire.relayed_apis import ADVERTISED_APIS
from tests import evidence
from tests.config.test_monitoring import EXPORTED, RULES

ROOT: Final = Path(__file__).parents[1]
BEGIN, END = "<!-- fields: written by `make reference` -->", "<!-- end of the fields -->"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (f"| {' | '.join(row)} |" for row in (columns, *rows))
    first, *rest = (re.sub(r"(?<=\|)  (?=\|)", " ", line) for line in lines)
    return "\n".join([first, "|" + "---|" * len(columns), *rest])


# Metrics

_METRICS: Final = """\
# Metrics

Use this page to look up a metric of `/metrics` at the [admin address](configuration.md#admin), in Prometheus' format.
`make reference` writes it from the code. [What to watch](operations.md#what-to-watch) has the alerts in order of
importance, and [limits](limits.md#metrics) says how many values a label may have. Names and labels [stay the
same](compatibility.md#interfaces) within a minor version.

Units are in the names: seconds, bytes, records, or offsets (records, and offsets without one). A histogram has the
series `_bucket`, `_count` and `_sum`. The process also exports `process_*` of Prometheus' client for Python. With
[`workers`](sizing.md#several-cores) each series also has the label `worker`."""


def metrics_page() -> str:
    """The whole of docs/metrics.md."""
    metrics = Metrics()
    metrics.add_collector(lambda: [MetricSample(family, tuple(family.labels), 1) for family in FAMILIES])
    families = text_string_to_metric_families(b"".join(metrics.exposition()).decode())
    rows = [_metric(family) for family in families if family.name.startswith("kafka_mesh_")]
    for each in (WORKER_UP, WORKER_RESTARTS):
        rows.append(_metric_row(each.name, "counter" if each.is_counter else "gauge", each.help))
    columns = ("metric", "type", "labels", "meaning", "alert")
    rows.sort(key=lambda row: row[0].strip("`"))
    return f"{_METRICS}\n\n{_table(columns, rows)}\n"


def _metric(family: Metric) -> Sequence[str]:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return _metric_row(name, family.type, family.documentation)


def _metric_row(name: str, kind: str, meaning: str) -> Sequence[str]:
    labels = EXPORTED[f"{name}_count" if kind == "histogram" else name]
    alerts = (alert for alert, rule in RULES.items() if re.search(rf"\b{name}(_bucket|_count|_sum)?\b", rule["expr"]))
    return f"`{name}`", kind, _codes(sorted(labels)), meaning, _codes(alerts)


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# Commands

_KINDS: Final = {str: "text", Path: "path", int: "number", float: "number", list[str]: "text; repeat it for several"}
_OPTION: Final = ("option", "value", "default", "meaning")
_OF_THE_ADMIN_ADDRESS: Final = ("url", "token", "trust")
_COMMANDS: Final = """\
# Commands

Use this page to look up a command and its options. `make reference` writes it from the code; `kafka-mesh COMMAND
--help` shows the same. Commands that ask a running process find it by the `admin` section of `[FILE]`, or by `--url`:

{admin}

| exit code | meaning |
|---|---|
| 0 | The command did what it says. |
| 1 | A problem: the process or a cluster does not answer, does not do it in time, or a check has failed. |
| 2 | A mistake in the options or in the configuration. Nothing has changed. |"""


def commands_page() -> str:
    """The whole of docs/commands.md."""
    seen: dict[str, Sequence[str]] = {}
    parts = []
    for names, command in _commands(typer.main.get_command(app), ()):
        arguments = [_argument(each) for each in command.params if each.param_type_name == "argument"]
        options = [each for each in command.params if each.param_type_name == "option"]
        usage = " ".join(["kafka-mesh", *names, *arguments])
        parts += [
            f"## {' '.join(names)}",
            f"```text\n{usage}{' [OPTIONS]' if options else ''}\n```",
            _filled(command.help),
        ]
        rows = [_option(each) for each in options if each.name not in _OF_THE_ADMIN_ADDRESS and not each.hidden]
        seen |= {each.name: _option(each) for each in options if each.name in _OF_THE_ADMIN_ADDRESS}
        if rows:
            parts.append(_table(_OPTION, rows))
    head = _COMMANDS.format(admin=_table(_OPTION, [seen[name] for name in _OF_THE_ADMIN_ADDRESS]))
    return "\n\n".join([head, *parts]) + "\n"


def _filled(text: str) -> str:
    paragraphs = (" ".join(each.split()) for each in text.split("\n\n"))
    return "\n\n".join(textwrap.fill(each, 120, break_on_hyphens=False) for each in paragraphs)


def _commands(command: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The commands behind a command, with their names."""
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, (*names, name))
    if names and not hasattr(command, "commands"):
        yield names, command


def _argument(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _option(option: Any) -> Sequence[str]:
    kind = option.type_descriptor.annotation
    if option.is_flag:
        value = ""
    elif isinstance(kind, type) and issubclass(kind, Enum):
        value = _codes(each.value for each in kind)
    else:
        value = _KINDS[kind]
    given = option.default.value if isinstance(option.default, Enum) else option.default
    default = "required" if option.required else "" if given in (None, False, ()) else f"`{given}`"
    text = option.help or ""
    if option.envvar:
        text += f" Also from the environment: `{option.envvar}`."
    return _codes(option.opts), value, default, text.replace("|", "\\|")


# APIs

_APIS: Final = """\
# APIs by target

Use this page to see which APIs of Kafka, in which versions, each target serves. `make reference` writes it from the
code. A relay and a union serve at most the versions that their clusters serve; `kafka-mesh check --apis FILE` asks the
clusters and shows the result, with the reason for each difference. A pool does not depend on its clusters.

* *Union* stands for routers that decide by names, and for relays with [rules](relay.md#who-the-client-is).
* *One node* stands for a relay with [`nodes: one`](one-address.md).
* A router that decides by connection serves what the target of the route serves.
* A pool advertises PRODUCE, because librdkafka does not fetch from a broker without it, and [refuses every
  record](choosing.md#what-each-target-keeps) with POLICY_VIOLATION.
* A relay with credentials of its own does not serve delegation tokens (38 to 41).
* Interceptors on `fetch` take away SHARE_FETCH of relays and unions."""


def apis_page() -> str:
    """The whole of docs/apis.md."""
    rows = []
    reasons = []
    for api, (lowest, highest) in sorted(ADVERTISED_APIS.items()):
        pool = TABLE.get(api) or LISTENER_TABLE.get(api)
        union, one = UNION_APIS[api], ONE_NODE_APIS[api]
        cells = [f"{pool.versions.lowest}-{pool.versions.highest}" if pool is not None else "", f"{lowest}-{highest}"]
        for row in (union, one):
            served = row.destination.name != "NOT_SERVED"
            cells.append(f"{lowest}-{highest if row.highest is None else row.highest}" if served else "")
        rows.append([api.name, str(api.value), *cells])
        for name, reason in (("union", union.reason), ("one node", one.reason)):
            if reason:
                reasons.append([api.name, name, reason])
    table = _table(("API", "key", "pool", "relay", "union", "one node"), rows)
    why = _table(("API", "target", "why not, or not more"), reasons)
    return f"{_APIS}\n\n{table}\n\n## Reasons\n\n{why}\n"


# Errors

_ERRORS: Final = """\
# Errors that clients see

Use this page to find the cause of an error of Kafka that a client reports. It lists the errors that kafka-mesh answers
by itself; behind a relay or a router most errors come from the cluster, and mean what Kafka says. `make reference`
writes it from `tests/errors.yaml`, and a test compares that file with the code. `kafka_mesh_requests_total{error}`
counts the requests that the mesh answers by itself. `kafka_mesh_relay_errors_total` and `kafka_mesh_route_errors_total`
count the errors of clusters. [Kafka Streams](streams.md#what-it-does) has the errors of topology descriptions."""
_TARGETS: Final = {
    "pool": "At a pool",
    "union": "At a router that decides by names, or a relay with rules",
    "one node": "With `nodes: one`, in addition to those of the cluster",
    "interceptors": "From interceptors of relays and routers",
}
_CLOSED: Final = """\
## Closed connections

The mesh closes a connection if it cannot answer a request. The log has `connection closed: protocol error` with the
`reason`, and `kafka_mesh_protocol_errors_total` counts it. [Limits](limits.md#connections) has the reasons of
`connection closed: limit`."""


@cache
def errors() -> Any:
    """The content of tests/errors.yaml."""
    return yaml.safe_load((ROOT / "tests/errors.yaml").read_text())


def errors_page() -> str:
    """The whole of docs/errors.md."""
    parts = [_ERRORS]
    for target, title in _TARGETS.items():
        rows = [(name, str(ErrorCode[name].value), text) for name, text in sorted(errors()[target]["codes"].items())]
        parts += [f"## {title}", _table(("error", "code", "meaning"), rows)]
    closed = [(f"`{name}`", text) for name, text in sorted(errors()["closed"].items())]
    return "\n\n".join([*parts, _CLOSED, _table(("reason", "meaning"), closed)]) + "\n"


# Log entries


def logs_page() -> str:
    """The whole of docs/logs.md, with the fields between the marks."""
    page = (ROOT / "docs/logs.md").read_text()
    head, _, rest = page.partition(BEGIN)
    fields = _table(("field", "meaning"), [(f"`{name}`", text) for name, text in sorted(VOCABULARY.items())])
    return f"{head}{BEGIN}\n\n{fields}\n\n{END}{rest.partition(END)[2]}"


# The JSON Schema of a configuration

_VARIABLE: Final = {"description": "A value from the environment or a file.", "type": "string", "pattern": r"\$\{"}
_ANNOTATIONS: Final = ("title", "description", "default")
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})


def schema_file() -> str:
    """The whole of config/schema.json. Each scalar may also hold variables, as in `${NAME}`."""
    schema = Config.model_json_schema()
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **_with_variables(schema)}
    schema["$defs"]["Variable"] = _VARIABLE
    return json.dumps(schema, indent=1) + "\n"


def _with_variables(schema: Any) -> Any:
    match schema:
        case {"const": _}:
            return schema
        case {"type": str(kind)} if kind in _SCALARS and not schema.keys() <= {"type", *_ANNOTATIONS}:
            about = {key: schema[key] for key in _ANNOTATIONS if key in schema}
            rest = {key: value for key, value in schema.items() if key not in about}
            return about | {"anyOf": [rest, {"$ref": "#/$defs/Variable"}]}
        case {"type": "integer" | "number" | "boolean" as kind}:
            return schema | {"type": [kind, "string"], "pattern": _VARIABLE["pattern"]}
        case dict():
            return {key: value if key == "default" else _with_variables(value) for key, value in schema.items()}
        case list():
            return [_with_variables(each) for each in schema]
        case _:
            return schema


GENERATED: Final[Mapping[str, Callable[[], str]]] = {
    "config/schema.json": schema_file,
    "docs/apis.md": apis_page,
    "docs/commands.md": commands_page,
    "docs/errors.md": errors_page,
    "docs/evidence.md": evidence.page,
    "docs/logs.md": logs_page,
    "docs/metrics.md": metrics_page,
}
"""Generated files, and the functions that render them."""


def main() -> None:
    for path, render in GENERATED.items():
        (ROOT / path).write_text(render())


if __name__ == "__main__":
    main()

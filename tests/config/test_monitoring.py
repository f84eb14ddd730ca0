"""Alerting rules and the dashboard use only metrics that a process exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from mesh.records.batch import RecordBatch
from mesh.telemetry.metric_definitions import FAMILIES, WORKER_RESTARTS, WORKER_UP, MetricSample
from mesh.telemetry.metrics import Metrics
from mesh.wire.errors import ErrorCode

FOLDER = Path(__file__).parents[2] / "config"
ALERTS: Final = yaml.safe_load((FOLDER / "prometheus/alerts.yaml").read_text())["groups"]
RULES: Final = {rule["alert"]: rule for group in ALERTS for rule in group["rules"]}
DASHBOARD: Final = json.loads((FOLDER / "grafana/kafka-mesh.json").read_text())
PANELS: Final = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
OF_PROMETHEUS: Final = {"up": {"job", "instance"}}
SCRAPE: Final = {"job", "instance"}
VARIABLE: Final = re.compile(r"\$__rate_interval")


def exported() -> dict[str, set[str]]:
    """The labels of each series of a process in which every event has happened once."""
    metrics = Metrics()
    metrics.received("eu", "orders", "raw", [RecordBatch(bytearray(70), 0, 0, 2, 3)])
    metrics.sent("shop", "billing", "orders", 5, 500)
    metrics.committed("shop", "billing", ErrorCode.NONE)
    metrics.redelivered("shop", "billing", 1)
    metrics.gone("shop", "billing", 7)
    metrics.given_up("shop", "billing", 7)
    metrics.dead_letter("shop", "billing")
    metrics.dead_letter_failed("shop", "billing")
    metrics.request("shop", "Fetch", ErrorCode.NONE, 0.1)
    metrics.protocol_error("shop", "length")
    metrics.authentication("shop", "PLAIN", "success")
    metrics.refusal("shop", "Fetch", "Read", "Topic")
    metrics.tls_failure("shop", "handshake")
    metrics.connection_closed("shop", "idle")
    metrics.throttled("shop", "Fetch")
    metrics.violation("shop")
    metrics.upstream_commit("eu", stored=True)
    metrics.engine_failed("eu")
    metrics.task_failed("reload")
    metrics.journal(5, "written")
    metrics.loop_lag(0.1)
    metrics.add_collector(lambda: [MetricSample(family, tuple(family.labels), 1) for family in FAMILIES])
    families = text_string_to_metric_families(b"".join(metrics.exposition()).decode())
    found: dict[str, set[str]] = {}
    for sample in (sample for family in families for sample in family.samples):
        found.setdefault(sample.name, set()).update(sample.labels)
    return found | {each.name: set(each.labels) for each in (WORKER_UP, WORKER_RESTARTS)}


EXPORTED: Final = exported()


def parts(expression: Any) -> Iterator[Any]:
    """The expression and everything in it."""
    yield expression
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        inner = getattr(expression, name, None)
        if inner is not None:
            yield from parts(inner)
    for argument in getattr(expression, "args", None) or ():
        yield from parts(argument)


def selectors(expression: Any) -> Iterator[Any]:
    return (part for part in parts(expression) if isinstance(part, promql_parser.VectorSelector))


def labels_of(name: str) -> set[str]:
    assert name in EXPORTED or name in OF_PROMETHEUS, f"no process exports {name}"
    return EXPORTED.get(name, set()) | OF_PROMETHEUS.get(name, set()) | SCRAPE


def check(expression: str) -> None:
    parsed = promql_parser.parse(VARIABLE.sub("5m", expression))
    names = [selector.name for selector in selectors(parsed)]
    assert names, expression
    for selector in selectors(parsed):
        labels = labels_of(selector.name)
        for matcher in selector.matchers.matchers:
            assert matcher.name in labels, f"{selector.name} has no label {matcher.name}"
    for part in parts(parsed):
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            for selector in selectors(part.expr):
                missing = set(part.modifier.labels) - labels_of(selector.name)
                assert not missing, f"{selector.name} has no label {missing}"


@pytest.mark.parametrize("alert", RULES)
def test_an_alert_can_fire(alert: str) -> None:
    check(RULES[alert]["expr"])


@pytest.mark.parametrize("alert", RULES)
def test_an_alert_says_what_it_means(alert: str) -> None:
    rule = RULES[alert]
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert set(rule["annotations"]) == {"summary", "description"}
    said = {name for text in rule["annotations"].values() for name in re.findall(r"\$labels\.(\w+)", text)}
    assert said <= remaining(promql_parser.parse(rule["expr"])), alert


def remaining(expression: Any) -> set[str]:
    """The labels that the expression's series have."""
    match expression:
        case promql_parser.AggregateExpr():
            if str(expression.op) in {"topk", "bottomk"}:
                return remaining(expression.expr)
            return set(expression.modifier.labels) if expression.modifier is not None else set()
        case promql_parser.VectorSelector():
            return labels_of(str(expression.name))
        case promql_parser.BinaryExpr():
            return remaining(expression.lhs)
        case promql_parser.Call():
            last = [remaining(argument) for argument in expression.args]
            return set.union(*last) - ({"le"} if expression.func.name == "histogram_quantile" else set())
        case promql_parser.ParenExpr() | promql_parser.SubqueryExpr():
            return remaining(expression.expr)
        case promql_parser.MatrixSelector():
            return remaining(expression.vector_selector)
        case _:
            return set()


def test_consumers_are_scaled_by_what_is_exported() -> None:
    """Prometheus gives the number, since KEDA's trigger `kafka` stops at the number of partitions."""
    scaled = yaml.safe_load((FOLDER / "kubernetes/scaledobject.yaml").read_text())
    (trigger,) = scaled["spec"]["triggers"]
    assert (scaled["apiVersion"], scaled["kind"], trigger["type"]) == ("keda.sh/v1alpha1", "ScaledObject", "prometheus")
    query = trigger["metadata"]["query"]
    check(query)
    (selector,) = selectors(promql_parser.parse(query))
    assert {each.name for each in selector.matchers.matchers} == {"virtual_cluster", "group"}
    assert all(isinstance(each, str) for each in trigger["metadata"].values()), "KEDA takes text only"
    assert int(trigger["metadata"]["threshold"]) > 0
    assert 0 < scaled["spec"]["minReplicaCount"] < scaled["spec"]["maxReplicaCount"]


def test_the_check_finds_what_is_wrong() -> None:
    for wrong in (
        "kafka_mesh_nothing > 0",
        'kafka_mesh_members{cluster="eu"} > 0',
        "sum by (topic) (rate(kafka_mesh_redelivered_records_total[5m]))",
        "histogram_quantile(0.9, sum by (le, group) (rate(kafka_mesh_request_seconds_bucket[5m])))",
    ):
        with pytest.raises(AssertionError):
            check(wrong)
    with pytest.raises(ValueError):
        check("sum by (group) kafka_mesh_members{")


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_a_panel_shows_something(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        check(target["expr"].replace("$virtual_cluster", ".*").replace("$group", ".*"))
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        parsed = promql_parser.parse(VARIABLE.sub("5m", target["expr"]))
        assert shown <= remaining(parsed), target


def test_panels_do_not_overlap() -> None:
    def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        return {(x, y) for x in columns for y in rows}

    panels: Iterable[dict[str, Any]] = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(DASHBOARD["panels"])
    for one, other in combinations(panels, 2):
        assert not cells(one) & cells(other), (one["title"], other["title"])


def test_variables_are_filled_from_what_is_exported() -> None:
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    used = {name for panel in PANELS for target in panel["targets"] for name in re.findall(r"\$(\w+)", target["expr"])}
    assert used - {"__rate_interval"} <= variables.keys()
    for name in ("virtual_cluster", "group"):
        query = re.fullmatch(r"label_values\((\w+).*, (\w+)\)", variables[name]["query"]["query"])
        assert query is not None
        assert query[2] in labels_of(query[1])


def test_what_is_exported_is_looked_at() -> None:
    """Each family is in the dashboard or an alert, except for those named here."""
    seen = {
        selector.name
        for expression in [rule["expr"] for rule in RULES.values()]
        + [target["expr"] for panel in PANELS for target in panel["targets"]]
        for selector in selectors(promql_parser.parse(VARIABLE.sub("5m", expression)))
    }
    ours = {
        name for name in EXPORTED if name.startswith("kafka_mesh_") and not re.search(r"_(count|sum|bucket)$", name)
    }
    for_a_closer_look = {
        "kafka_mesh_engine_bytes_in_total",
        "kafka_mesh_event_loop_tasks",
        "kafka_mesh_bytes_in_total",
        "kafka_mesh_pools",
        "kafka_mesh_worker_up",
        "kafka_mesh_requests_in_work",
        "kafka_mesh_config_info",
        "kafka_mesh_config_reloaded_timestamp_seconds",
    }
    assert ours - seen - for_a_closer_look == {"kafka_mesh_backlog_bytes"}


def test_what_the_documentation_names_is_exported() -> None:
    exported = EXPORTED.keys() | {name.removesuffix("_bucket") for name in EXPORTED}
    pages = sorted((FOLDER.parent / "docs").glob("*.md"))
    named = {page.name: set(re.findall(r"kafka_mesh_\w+", page.read_text())) for page in pages}
    assert any(named.values())
    assert {page: names - exported for page, names in named.items() if names - exported} == {}

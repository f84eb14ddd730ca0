"""One line when a problem begins, reminders, one line when it is over; the same in /readyz and metrics."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from mesh.telemetry.metric_definitions import UPSTREAM_PROBLEM_SECONDS, UPSTREAM_UP
from mesh.telemetry.upstream_health import REMINDER, SETTLED, WORDS, UpstreamHealth
from mesh.upstream.problems import UpstreamProblem

DOWN = "upstream cluster unreachable"
USABLE = "upstream cluster usable again"


class Bed:
    def __init__(self) -> None:
        self.now = 100.0
        self.upstream_health = UpstreamHealth(("eu", "us"), lambda: self.now)

    def down(
        self, group: str = "", problem: UpstreamProblem = UpstreamProblem.UNREACHABLE, reason: str = "refused"
    ) -> None:
        self.upstream_health.begin(problem, "us", reason, virtual_cluster="shop" if group else "", group=group)

    def up(self, group: str = "") -> None:
        self.upstream_health.end(
            UpstreamProblem.UNREACHABLE, "us", virtual_cluster="shop" if group else "", group=group
        )

    def settle(self) -> None:
        self.now += SETTLED
        self.upstream_health.remind()

    def metrics(self) -> dict[tuple[str, ...], float]:
        return {(sample.family.name, *sample.labels): sample.value for sample in self.upstream_health.samples()}


def events(logs: list[Any]) -> list[str]:
    return [entry["event"] for entry in logs]


def test_every_problem_has_its_words() -> None:
    assert WORDS.keys() == set(UpstreamProblem)


def test_one_line_for_a_cluster_however_many_report_it() -> None:
    bed = Bed()
    with capture_logs() as logs:
        bed.down()
        bed.down("billing")
        bed.down("fraud")
        bed.up("billing")
        bed.up()
        bed.now += 7.5
        bed.up("fraud")
        assert bed.upstream_health.described() == []
        bed.settle()
        bed.up("fraud")
        bed.settle()
    begun, over = logs
    assert (begun["log_level"], begun["cluster"], begun["reason"]) == ("warning", "us", "refused")
    assert "no records come" in begun["meanwhile"]
    assert "behind a relay or a router its nodes look down" in begun["meanwhile"]
    assert (over["event"], over["log_level"], over["seconds"], over["cluster"]) == (USABLE, "info", 7.5, "us")


def test_what_comes_back_at_once_was_not_over() -> None:
    """One client of the cluster has found it again; another one still reports the old problem."""
    bed = Bed()
    with capture_logs() as logs:
        bed.down("billing")
        bed.now += 10
        bed.up("billing")
        bed.now += SETTLED / 2
        bed.upstream_health.remind()
        bed.down()
        (described,) = bed.upstream_health.described()
        assert described["seconds"] == 10 + SETTLED / 2
        bed.up()
        bed.settle()
    assert events(logs) == [DOWN, USABLE]
    assert logs[1]["seconds"] == 10 + SETTLED / 2


def test_it_is_told_again_every_few_minutes() -> None:
    bed = Bed()
    with capture_logs() as logs:
        bed.down()
        for _ in range(61):
            bed.upstream_health.remind()
            bed.now += REMINDER / 30
            bed.down()
    assert events(logs) == [DOWN] * 3
    assert [entry.get("seconds") for entry in logs] == [None, REMINDER, 2 * REMINDER]
    assert logs[1]["since"] == logs[2]["since"]


def test_a_cause_that_becomes_known_is_told_and_one_that_is_less_exact_is_not() -> None:
    bed = Bed()
    with capture_logs() as logs:
        bed.down()
        bed.now += 1
        bed.down("billing", UpstreamProblem.CREDENTIALS, "wrong password")
        bed.down("billing")
        bed.down()
    assert events(logs) == [DOWN, "upstream credentials refused"]
    assert logs[1]["seconds"] == 1
    (described,) = bed.upstream_health.described()
    assert (described["problem"], described["reason"], described["cluster"]) == ("credentials", "wrong password", "us")


def test_groups_and_topics_have_troubles_of_their_own() -> None:
    bed = Bed()
    with capture_logs() as logs:
        for group in ("billing", "fraud"):
            bed.upstream_health.begin(UpstreamProblem.NOT_AUTHORIZED, "us", "no", virtual_cluster="shop", group=group)
        bed.upstream_health.begin(UpstreamProblem.TOPIC_MISSING, "us", "no", topic="orders")
        bed.upstream_health.end(UpstreamProblem.NOT_AUTHORIZED, "us", virtual_cluster="shop", group="fraud")
        bed.settle()
    assert [entry.get("group") or entry.get("topic") for entry in logs] == ["billing", "fraud", "orders", "fraud"]
    assert {each["problem"] for each in bed.upstream_health.described()} == {"not_authorized", "topic_missing"}


def test_a_group_that_has_gone_reports_nothing_any_more() -> None:
    bed = Bed()
    bed.down("billing")
    bed.upstream_health.begin(UpstreamProblem.COMMITS, "us", "no", virtual_cluster="shop", group="billing")
    bed.down()
    bed.upstream_health.forget_group("shop", "billing")
    assert [each["problem"] for each in bed.upstream_health.described()] == ["unreachable"]
    bed.up()
    assert bed.upstream_health.described() == []


def test_metrics() -> None:
    bed = Bed()
    assert bed.metrics() == {(UPSTREAM_UP.name, "eu"): 0, (UPSTREAM_UP.name, "us"): 0}
    bed.upstream_health.end(UpstreamProblem.UNREACHABLE, "eu")
    bed.up()
    assert bed.metrics() == {(UPSTREAM_UP.name, "eu"): 1, (UPSTREAM_UP.name, "us"): 1}
    bed.down()
    bed.now += 5
    assert bed.metrics() == {
        (UPSTREAM_UP.name, "eu"): 1,
        (UPSTREAM_UP.name, "us"): 0,
        (UPSTREAM_PROBLEM_SECONDS.name, "us", "unreachable"): 5,
    }


@pytest.mark.parametrize("problem", [each for each in UpstreamProblem if each is not UpstreamProblem.FENCED])
def test_a_process_that_shares_its_process_id_is_not_ready_and_others_are(problem: UpstreamProblem) -> None:
    bed = Bed()
    bed.upstream_health.begin(problem, "us", "no", virtual_cluster="shop", group="billing")
    assert bed.upstream_health.blocking() == []
    bed.upstream_health.begin(
        UpstreamProblem.FENCED, "us", "group.instance.id taken", virtual_cluster="shop", group="billing"
    )
    (blocking,) = bed.upstream_health.blocking()
    assert blocking == "process_id in use by another process: group.instance.id taken (cluster us)"

"""The configuration of the landing job; tests/spark proves that it lands each record once."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from mesh.cli import app
from mesh.pipelines.continuing import OtherCheckpoint
from mesh.pipelines.landing import ATTEMPTS, SLOW_START, Landing, WrongLanding, load, options_of

NEEDED = {
    "source": {"url": "http://127.0.0.1:9644", "virtual_cluster": "orders", "group": "landing", "topics": ["a", "b"]},
    "table": "/data/landing",
    "checkpoint": "/data/landing.checkpoint",
}


def written(folder: Path, content: object) -> Path:
    file = folder / "landing.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def test_the_options_of_the_source(tmp_path: Path) -> None:
    landing = load(written(tmp_path, NEEDED | {"tasks": 8}))
    assert options_of(landing) == {
        "mesh.admin.url": "http://127.0.0.1:9644",
        "mesh.virtual.cluster": "orders",
        "kafka.group.id": "landing",
        "subscribe": "a,b",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": "1000000",
        "minPartitions": "8",
    }


def test_further_options_go_before() -> None:
    source = NEEDED["source"] | {"token": "secret", "options": {"kafka.eu.sasl.username": "me"}}  # type: ignore[operator]
    landing = Landing.model_validate(NEEDED | {"source": source})
    assert options_of(landing).items() >= {"mesh.admin.token": "secret", "kafka.eu.sasl.username": "me"}.items()
    assert "secret" not in repr(landing)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "source: Field required\ntable: Field required\ncheckpoint: Field required"),
        (NEEDED | {"trigger": 0}, "trigger: Input should be greater than 0"),
        (NEEDED | {"tabel": "x"}, "tabel: Extra inputs are not permitted"),
        (NEEDED | {"source": NEEDED["source"] | {"topics": []}}, "source.topics: Tuple should have at least 1 item"),  # type: ignore[operator]
    ],
)
def test_everything_that_is_wrong_is_named(tmp_path: Path, content: object, said: str) -> None:
    file = written(tmp_path, content)
    with pytest.raises(WrongLanding) as problem:
        load(file)
    assert said in str(problem.value)
    result = CliRunner().invoke(app, ["pipeline", "landing", str(file)])
    assert result.exit_code == 2
    assert f"{file}: {said.splitlines()[0]}" in result.output


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["pipeline", "landing", str(tmp_path / "nothing.yaml")])
    assert result.exit_code == 2
    assert "No such file" in result.output


def test_another_checkpoint_is_a_mistake_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mesh.pipelines import landing

    def run(_landing: Landing, _available_now: bool) -> None:
        raise OtherCheckpoint("checkpoint: it is an older copy")

    pytest.importorskip("pyspark", reason="Spark is an extra: pip install 'kafka-mesh[spark]'")
    monkeypatch.setattr(landing, "run", run)
    file = written(tmp_path, NEEDED)
    result = CliRunner().invoke(app, ["pipeline", "landing", str(file)])
    assert result.exit_code == 2
    assert result.output == f"kafka-mesh: {file}: checkpoint: it is an older copy\n"


class Query:
    """One run of a query: it ends, or fails with `problem`."""

    def __init__(self, problem: str | None) -> None:
        self._problem = problem

    def awaitTermination(self, _seconds: float) -> bool:
        if self._problem is not None:
            raise RuntimeError(self._problem)
        return True

    def stop(self) -> None: ...


@pytest.mark.parametrize(
    ("problems", "raised", "left"),
    [
        ([SLOW_START, f"... {SLOW_START}. SQLSTATE", None, None], None, 1),
        (["a lease was lost", None], "a lease was lost", 1),
        ([SLOW_START] * (ATTEMPTS + 1), SLOW_START, 1),
    ],
)
def test_it_begins_again_when_python_was_slow_to_start_and_only_then(
    problems: list[str | None], raised: str | None, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mesh.pipelines import landing

    runs = [Query(problem) for problem in problems]
    monkeypatch.setattr(landing, "start", lambda *_: runs.pop(0))
    monkeypatch.setattr(landing, "batches_of", lambda *_: None)
    monkeypatch.setattr(landing, "check_checkpoint", lambda *_: None)
    config = Landing.model_validate(NEEDED | {"format": "delta"})
    spark: Any = None
    with pytest.raises(RuntimeError, match=raised) if raised else nullcontext():
        landing.land(spark, config, lambda: False)
    assert len(runs) == left


def test_a_query_that_fails_since_another_lands_its_batches_names_the_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mesh.pipelines import landing

    def check(*_: object) -> None:
        raise OtherCheckpoint("checkpoint: a copy")

    monkeypatch.setattr(landing, "start", lambda *_: Query("a long traceback of Java"))
    monkeypatch.setattr(landing, "batches_of", lambda *_: None)
    monkeypatch.setattr(landing, "check_checkpoint", check)
    config = Landing.model_validate(NEEDED | {"format": "delta"})
    spark: Any = None
    with pytest.raises(OtherCheckpoint, match="a copy"):
        landing.land(spark, config, lambda: False)

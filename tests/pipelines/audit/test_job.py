"""The configuration of an audit, its state, and its output."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from mesh.cli import app
from mesh.pipelines.audit.accounts import Account, AuditState, Deviation
from mesh.pipelines.audit.job import WrongAudit, load
from mesh.pipelines.audit.records import AuditVerdict, Holes, Memory
from mesh.pool.common.delivery_events import DeliveryEventType
from tests.documents import ROOT, blocks

NEEDED: dict[str, Any] = {
    "virtual_cluster": "orders",
    "group": "landing",
    "topics": {"eu": ["orders"]},
    "clusters": {"eu": {"bootstrap.servers": "kafka.eu:9092"}},
    "journal": {"cluster": "eu", "topic": "journal"},
    "state": "/data/audit",
}


def written(folder: Path, content: object) -> Path:
    file = folder / "audit.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def test_what_is_documented_is_understood(tmp_path: Path) -> None:
    found = [block.text for block in blocks("docs/audit.md") if "virtual_cluster" in block.text]
    text = found[0].replace("\neu:", "\n  eu:").replace("\nus:", "\n  us:")  # blocks are not indented
    file = tmp_path / "audit.yaml"
    file.write_text(text)
    audit = load(file)
    assert audit.topics == {"eu": ("orders",), "us": ("orders",)}
    assert audit.landed is not None
    assert (audit.window_ms, audit.patience, audit.landed.by) == (3_600_000, 5.0, "leases")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"topics": {"mars": ["orders"]}}, "clusters.mars has no bootstrap.servers"),
        ({"state": ""}, "state: "),
        ({"landed": {"table": "/t", "by": "somebody"}}, "landed.by: "),
        ({"windows": "1h"}, "windows: "),
    ],
)
def test_mistakes_are_named(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    with pytest.raises(WrongAudit, match=named):
        load(written(tmp_path, NEEDED | change))


@pytest.mark.long
def test_the_command_refuses_a_wrong_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["pipeline", "audit", str(written(tmp_path, NEEDED | {"state": ""}))])
    assert done.exit_code == 2
    assert "state" in done.output


def verdict_of(*deviations: Deviation) -> AuditVerdict:
    counts = {0: Counter(expected=10, acknowledged=9)}
    state = AuditState(
        baseline=3,
        seen=10,
        floor=4,
        open=[(4, 6, 0)],
        landed=[(5, 6)],
        held=[["leased", 1, 4, 6, "m", "c", "", "L", 1]],
    )
    place = "eu", "orders", 1
    return AuditVerdict.of({place: Account(counts, deviations, state, 1)}, Holes(), Memory())


def test_what_is_remembered_is_read_again(tmp_path: Path) -> None:
    verdict = verdict_of(Deviation("not_landed", 4, 5, 0, ("1 leased",)))
    verdict.memory.files, verdict.memory.journal = {"a", "b"}, {"0": 17}
    verdict.memory.save(tmp_path)
    assert Memory.load(tmp_path) == verdict.memory
    assert Memory.load(tmp_path / "nothing") == Memory()


def test_what_it_says() -> None:
    assert verdict_of().holds
    assert list(verdict_of().lines())[-1] == "VERDICT: everything is accounted for"
    assert verdict_of(Deviation("acknowledged_twice", 4, 5, 0, ())).holds
    verdict = verdict_of(Deviation("not_landed", 4, 5, 0, ("1 leased 4..6 m",)))
    assert not verdict.holds
    lines = list(verdict.lines())
    assert "FAILS not landed: eu/orders-1 4..5" in lines
    assert "        1 leased 4..6 m" in lines
    assert lines[0].startswith("audit 1: 10 expected, 0 delivered, 9 acknowledged")


@pytest.mark.parametrize(("kind", "code"), [(None, 0), ("not_landed", 1), ("missing", 1), ("acknowledged_twice", 0)])
def test_the_command_ends_as_the_verdict_says(
    kind: str | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Deviation(kind, 4, 5, 0, ())] if kind else []
    monkeypatch.setattr("mesh.pipelines.audit.audit.run", lambda _: verdict_of(*found))
    done = CliRunner().invoke(app, ["pipeline", "audit", str(written(tmp_path, NEEDED))])
    assert done.exit_code == code
    assert ("VERDICT: everything is accounted for" in done.output) == (code == 0)


def test_holes_of_the_journal() -> None:
    memory = Memory()
    assert memory.holes([("a", "", 5, False, 0), ("a", "", 6, False, 0)]) == Holes(), "the first ones were deleted"
    memory.number = 1
    assert memory.holes([("a", "", 8, False, 3), ("b", "", 0, True, 0)]) == Holes(1, 3)
    assert memory.holes([("c", "", 1, False, 0)]) == Holes(1, 0)
    assert memory.runs == {"a": 9, "c": 2}


def test_each_exception_is_documented() -> None:
    from mesh.pipelines.audit.accounts import COLUMNS, FAILING

    page = (ROOT / "docs/audit.md").read_text()
    for kind in FAILING:
        assert f"| `{kind}` | yes |" in page
    for kind in ("acknowledged_twice", "compacted"):
        assert f"| `{kind}` | no |" in page
    assert all(f"`{name}`" in page for name in COLUMNS)
    assert DeliveryEventType.ACKNOWLEDGED.value == "acknowledged"

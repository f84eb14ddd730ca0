"""The jobs by spark-submit, and as a process that SIGTERM ends, on embedded clusters."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import mesh.pipelines
from mesh.demo.processes.children import Children
from mesh.demo.processes.landed import LandedTable
from tests.integration.mesh_process import KAFKA_MESH
from tests.integration.processes import ChildProcess, eventually
from tests.integration.test_leases import GROUP, JOURNAL, RECORDS, TOPIC, Bed
from tests.spark.session import SETTINGS

pytest.importorskip("pyspark", reason="Spark is an extra: pip install 'kafka-mesh[spark]'")
pytestmark = [pytest.mark.long, pytest.mark.deep, pytest.mark.timeout(900)]
PIPELINES = Path(mesh.pipelines.__file__).parent
JOBS = {"landing": PIPELINES / "landing.py", "audit": PIPELINES / "audit" / "audit.py"}


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with Children(tmp_path) as children:
        yield Bed(tmp_path, children)


class Jobs:
    """The files of a landing and its audit, and the processes that run them."""

    def __init__(self, bed: Bed, folder: Path) -> None:
        self._folder = folder
        self.table = LandedTable(folder / "table")
        self.checkpoint = folder / "checkpoint"
        source = {"url": bed.admin_url, "virtual_cluster": "demo", "group": GROUP, "topics": [TOPIC]}
        table = str(self.table.folder)
        self.landing = self._file(
            "landing", {"source": source, "table": table, "checkpoint": str(self.checkpoint), "trigger": 0.5}
        )
        self.audit = self._file(
            "audit",
            {
                "virtual_cluster": "demo",
                "group": GROUP,
                "topics": {name: [TOPIC] for name in bed.addresses},
                "clusters": {name: {"bootstrap.servers": address} for name, address in bed.addresses.items()},
                "journal": {"cluster": "eu", "topic": JOURNAL},
                "landed": {"table": table},
                "state": str(folder / "audit"),
                "patience": 3,
            },
        )

    def _file(self, name: str, document: Mapping[str, Any]) -> Path:
        file = self._folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(document))
        return file

    def submit(self, job: str, *arguments: str | Path) -> ChildProcess:
        settings = [part for name, value in SETTINGS.items() for part in ("--conf", f"{name}={value}")]
        submit = Path(sys.executable).with_name("spark-submit")
        return self._run(job, submit, "--master", "local[2,4]", *settings, JOBS[job], *arguments)

    def run(self, job: str, *arguments: str | Path) -> ChildProcess:
        return self._run(job, KAFKA_MESH, "pipeline", job, *arguments)

    def _run(self, job: str, *command: str | Path) -> ChildProcess:
        environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        return ChildProcess(command, log=self._folder / f"{job}.log", environment=environment)


def test_what_was_submitted_lands_sigterm_ends_it_and_an_audit_that_was_submitted_agrees(
    bed: Bed, tmp_path: Path
) -> None:
    jobs = Jobs(bed, tmp_path)
    landing = jobs.submit("landing", jobs.landing, "--available-now")
    assert landing.wait(300) == 0, landing.log_tail()
    assert jobs.table.count() == 2 * RECORDS

    again = jobs.run("landing", jobs.landing)  # it acknowledges what the last run has landed
    eventually("everything is acknowledged", lambda: bed.lag(GROUP) == 0, timeout=300, interval=0.5)
    bed.feed(RECORDS)
    eventually("it goes on", lambda: jobs.table.count() == 4 * RECORDS, timeout=300, interval=0.5)
    eventually("that is acknowledged too", lambda: bed.lag(GROUP) == 0, timeout=300, interval=0.5)
    os.kill(again.pid, signal.SIGTERM)  # not its JVM
    assert again.wait(120) == 0, again.log_tail()

    audit = jobs.submit("audit", jobs.audit)
    assert audit.wait(300) == 0, audit.log_tail()
    said = audit.log.read_text()
    assert f"{4 * RECORDS:,} landed, 0 missing, 0 twice" in said
    assert "0 are not acknowledged yet" in said
    assert "VERDICT: everything is accounted for" in said

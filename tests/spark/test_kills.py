"""The landing job, its mesh, or both are killed with -9 while ordinary members share the pool: each record is landed or
a member got it, no record is landed twice, and no other record is acknowledged."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.bench import Bench
from tests.integration.mesh_process import KAFKA_MESH
from tests.integration.processes import ChildProcess, eventually
from tests.spark.session import SETTINGS
from tests.spark.test_source import Place, place_of, places, stored_places

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class Job:
    """`kafka-mesh pipeline landing` as its users run it."""

    def __init__(self, bench: Bench, folder: Path, most: int = 1_000) -> None:
        self.table, self._checkpoint = folder / "table", folder / "checkpoint"
        source = {
            "url": bench.mesh.admin_url,
            "virtual_cluster": "tested",
            "group": bench.group,
            "topics": [bench.topic],
        }
        config = {
            "source": source,
            "table": str(self.table),
            "checkpoint": str(self._checkpoint),
            "trigger": 0.1,
            "max_records_per_batch": most,
            "tasks": 4,
        }
        self._file, self._log = folder / "landing.yaml", folder / "landing.log"
        self._file.write_text(yaml.safe_dump(config))
        self.process = self.start()

    def start(self, *arguments: str) -> ChildProcess:
        settings = " ".join(f"--conf '{name}={value}'" for name, value in SETTINGS.items())
        environment = {
            "PYSPARK_SUBMIT_ARGS": f"--master local[2,4] {settings} pyspark-shell",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        command: list[str | Path] = [KAFKA_MESH, "pipeline", "landing", self._file, *arguments]
        self.process = ChildProcess(command, log=self._log, environment=environment)
        return self.process

    def logged(self, kind: str) -> int:
        """The number of batches in a log of the checkpoint: `offsets` (planned) or `commits` (done)."""
        return sum(each.name.isdigit() for each in (self._checkpoint / kind).glob("*"))

    def is_mid_read(self) -> bool:
        """True if a batch is planned, but not in the table's own log yet."""
        in_table = sum(each.name.split(".")[0].isdigit() for each in (self.table / "_spark_metadata").glob("*"))
        return self.logged("offsets") > in_table

    def finish(self) -> None:
        """Lands the remaining records."""
        code = self.start("--available-now").wait(240)
        assert code == 0, self.process.log_tail()


def landed(spark: Any, job: Job) -> Counter[Place]:
    return places(spark.read.parquet(str(job.table)).collect())


def assert_all_is_somewhere(bench: Bench, job: Job, spark: Any) -> None:
    stored = bench.stored()
    found = landed(spark, job)
    twice = {place: count for place, count in found.items() if count > 1}
    assert not twice, f"{len(twice)} records were landed twice"
    delivered = {place_of(stored[each.id]) for member in bench.members for each in member.deliveries}
    missing = stored_places(stored) - set(found) - delivered
    assert not missing, f"{len(missing)} of {len(stored)} records are nowhere: {sorted(missing)[:5]}"
    assert found, "nothing was landed"


def until_it_lands(bench: Bench, job: Job) -> None:
    """Returns when another batch is done. A few records come meanwhile: without requests for leases members take all
    records, so Spark gets none of those that came before it started."""
    done = job.logged("commits")

    def lands() -> bool:
        assert job.process.exit_code is None, job.process.log_tail()
        bench.feed(20)
        return job.logged("commits") > done

    eventually("it lands", lands, timeout=300, interval=0.25)


def test_the_driver_is_killed_in_its_first_batch_and_while_it_reads(bench: Bench, spark: Any, tmp_path: Path) -> None:
    bench.start_mesh()
    bench.confluent("member", commit="sync").until_assigned()
    job = Job(bench, tmp_path)
    bench.feed(2_000)
    eventually("the first batch is planned", lambda: job.logged("offsets") == 1, timeout=300, interval=0.005)
    job.process.kill()
    job.start()
    for _ in range(2):
        until_it_lands(bench, job)
        with bench.feeding(6_000, rate=1_000):
            eventually("it reads", job.is_mid_read, timeout=60, interval=0.002)
            job.process.kill()
            job.start()
    until_it_lands(bench, job)
    job.process.kill()
    bench.close_members()
    job.finish()
    assert_all_is_somewhere(bench, job, spark)
    bench.until_all_committed()


@pytest.mark.deep
def test_mesh_and_driver_are_killed_at_random(bench: Bench, spark: Any, tmp_path: Path) -> None:
    mesh = bench.start_mesh()
    chance = random.Random(7)
    for name in ("member-1", "member-2"):
        bench.confluent(name, commit="sync").until_assigned()
    job = Job(bench, tmp_path, most=2_000)
    for victims in ("mesh", "driver", "both", "mesh"):
        until_it_lands(bench, job)
        with bench.feeding(15_000, rate=2_500):
            time.sleep(chance.uniform(0.0, 4.0))
            if victims != "mesh":
                job.process.kill()
            if victims != "driver":
                mesh.kill()
                mesh.restart()
            if victims != "mesh":
                job.start()
    until_it_lands(bench, job)
    job.process.kill()
    bench.close_members()
    job.finish()
    job.finish()
    assert_all_is_somewhere(bench, job, spark)
    bench.until_all_committed()

"""`python -m mesh.pipelines.demonstration LANDING AUDIT OUTCOME`: the Spark part of `make demo-spark`.

It lands until SIGTERM. Then, in the same session, it audits what was delivered and reports on it. LANDING and AUDIT are
the files of `kafka-mesh pipeline`. OUTCOME is written at the end: JSON with `holds` (the verdict), `lines` (for people)
and `page` (the report's).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mesh.demo.processes.signals import StopRequest
from mesh.pipelines import landing
from mesh.pipelines.audit import audit
from mesh.pipelines.audit import job as auditing
from mesh.pipelines.report import report
from mesh.pipelines.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}
"""Settings for a small machine and a short session, in which Spark's compiler would not pay off."""


def account(spark: SparkSession, config: auditing.AuditJob, outcome: Path) -> None:
    """Audits and reports; writes `outcome` when both are complete."""
    verdict = audit.next_audit(spark, config)
    made = report.report(spark, config)
    result = {"holds": verdict.holds, "lines": [*verdict.lines(), *made.lines()], "page": str(made.page)}
    partial = outcome.with_suffix(".partial")
    partial.write_text(json.dumps(result))
    os.replace(partial, outcome)


def run(landing_file: Path, audit_file: Path, outcome: Path) -> None:
    config, audited = landing.load(landing_file), auditing.load(audit_file)
    with StopRequest() as stop:
        spark = session("kafka-mesh demo", SETTINGS)
        try:
            landing.land(spark, config, lambda: stop.wait(0))
            account(spark, audited, outcome)
        finally:
            spark.stop()


if __name__ == "__main__":
    run(*map(Path, sys.argv[1:4]))

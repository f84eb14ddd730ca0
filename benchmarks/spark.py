"""`python -m benchmarks.spark`: the source `kafka-mesh` beside Spark's own Kafka source.

In the same session, on the same broker and records, to noop and to Parquet. They take turns, A B A B, after a round
that is not counted. A rate is rows per second of `addBatch`: reading, decoding and writing, in all tasks; planning, and
how long a group takes to form, are not in it. Spark's connector comes from Maven Central; Java 17 and Maven are needed.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from confluent_kafka import Producer

from tests.integration.building import built_once
from tests.integration.jars import kafka_jars
from tests.integration.kafka import KafkaCluster
from tests.integration.mesh_process import Mesh

TOPIC, PARTITIONS, SIZE = "bench", 6, 100
SPARKS, OURS = "Spark's own", "kafka-mesh"
SINKS = ("noop", "parquet")
JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",  # there is no version 4.2.0; it is not used
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
_NUMBERS = itertools.count(1)


def connector() -> str:
    """The jars of Spark's own source, in the form of `spark.jars`; other needs come with Spark."""
    cache = Path(__file__).parents[1] / ".cache" / "spark"
    return ",".join(map(str, sorted(built_once(cache / "connector-4.2.0", _fetch).glob("*.jar"))))


def _fetch(folder: Path) -> None:
    lines = ["<project><modelVersion>4.0.0</modelVersion><groupId>kafka-mesh</groupId><artifactId>bench</artifactId>"]
    lines.append("<version>1</version><packaging>pom</packaging><dependencies>")
    for jar in JARS:
        group, artifact, version = jar.split(":")
        lines.append(f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>")
        lines.append(f"<version>{version}</version><exclusions><exclusion><groupId>*</groupId>")
        lines.append("<artifactId>*</artifactId></exclusion></exclusions></dependency>")
    pom = folder / "pom.xml"
    pom.write_text("".join([*lines, "</dependencies></project>"]))
    copy = ("dependency:copy-dependencies", f"-DoutputDirectory={folder}")
    subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *copy], check=True, timeout=600)
    pom.unlink()


def fill(broker: KafkaCluster, records: int) -> None:
    """Values of 100 bytes with a key and two headers."""
    broker.create_topic(TOPIC, PARTITIONS)
    values = [random.Random(number).randbytes(SIZE) for number in range(1_000)]
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    headers: list[tuple[str, str | bytes | None]] = [("kind", b"order"), ("trace", b"0123456789abcdef")]
    for number in range(records):
        while True:
            try:
                producer.produce(
                    TOPIC,
                    values[number % 1_000],
                    b"%08d" % number,
                    partition=number // 100 % PARTITIONS,
                    headers=headers,
                )
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(240):
        raise RuntimeError("the topic could not be filled")


def session() -> Any:
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {
        "spark.jars": connector(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def options(kind: str, broker: KafkaCluster, mesh: Mesh) -> Mapping[str, str]:
    """A new group each time, which begins at the beginning."""
    if kind == SPARKS:
        broker_options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "startingOffsets": "earliest"}
        return {**broker_options, "subscribe": TOPIC, "includeHeaders": "true"}
    place = {"mesh.admin.url": mesh.admin_url, "mesh.virtual.cluster": "tested"}
    return {**place, "kafka.group.id": f"bench-{next(_NUMBERS)}", "subscribe": TOPIC, "includeHeaders": "true"}


def measure(spark: Any, kind: str, sink: str, given: Mapping[str, str], records: int, folder: Path) -> float:
    """Rows per second of one run over the whole topic."""
    place = folder / f"run-{next(_NUMBERS)}"
    stream = spark.readStream.format("kafka" if kind == SPARKS else "kafka-mesh").options(**given).load()
    writer = stream.writeStream.format(sink).option("checkpointLocation", f"{place}/checkpoint")
    if sink == "parquet":
        writer = writer.option("path", f"{place}/table")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [each for each in query.recentProgress if each["numInputRows"]]
    rows = sum(each["numInputRows"] for each in progress)
    if rows != records:
        raise RuntimeError(f"{kind} read {rows:,} of {records:,} records")
    shutil.rmtree(place)
    return float(rows / sum(each["durationMs"]["addBatch"] for each in progress) * 1_000)


def main(
    records: Annotated[int, typer.Option(min=1_000)] = 2_000_000,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
) -> None:
    """Medians of rows per second, and of the ratios within a round."""
    folder = Path(tempfile.mkdtemp(prefix="kafka-mesh-bench-spark-"))
    broker = KafkaCluster("bench", kafka_jars(), folder / "broker")
    mesh: Mesh | None = None
    try:
        fill(broker, records)
        mesh = Mesh([broker], [TOPIC], folder, {})
        spark = session()
        for sink in SINKS:
            found: dict[str, list[float]] = {SPARKS: [], OURS: []}
            for number in range(rounds + 1):
                for kind in found:
                    rate = measure(spark, kind, sink, options(kind, broker, mesh), records, folder)
                    if number:
                        found[kind].append(rate)
                        typer.echo(f"{sink:8} round {number} {kind:12} {rate:>12,.0f} rows/s")
            ratios = [ours / theirs for ours, theirs in zip(found[OURS], found[SPARKS], strict=True)]
            shown = ", ".join(f"{kind} {statistics.median(rates):,.0f} rows/s" for kind, rates in found.items())
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            typer.echo(f"{sink:8} median: {shown}; ratio {statistics.median(ratios):.2f} ({spread})")
        spark.stop()
    finally:
        if mesh is not None:
            mesh.kill()
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    typer.run(main)

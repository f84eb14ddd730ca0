"""The landing job: appends all records to one table, Parquet or Delta, each record once, with its upstream place.

Run it by `kafka-mesh pipeline landing FILE`, or by `spark-submit landing.py FILE` where kafka-mesh[spark] is installed.
The table has the columns of the source, `ingested_at`, and `dt`, the day of the record's timestamp in UTC; it is
partitioned by topic and dt. Beside it is a table of its batches (`mesh.pipelines.batches`). See docs/spark.md.
"""

from __future__ import annotations

import signal
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import yaml
from pydantic import Field, ValidationError

from mesh.config.base import Model
from mesh.pipelines.batches import Batches, SinkLog
from mesh.pipelines.checkpoints import NONE, Checkpoint
from mesh.pipelines.claims import FOLDER as CLAIMS
from mesh.pipelines.claims import Claims
from mesh.pipelines.continuing import LandedBatch, check
from mesh.pipelines.delta import append_once, last_batch
from mesh.pipelines.hadoop import Folder
from mesh.pipelines.sink import add_batch
from mesh.pipelines.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


DELTA_BYTES = 64 << 20
PARTITIONS = ("topic", "dt")
ATTEMPTS = 10
SLOW_START = "Python worker failed to connect back"
"""The error of a Python process that did not start within ten seconds. Spark has no setting for that time, which is too
short on a busy machine."""
_NEWEST = "Put back the newest copy of the checkpoint."
_REMEDY = (
    f"{_NEWEST} If it is lost, land into another `table`, with a new folder as `checkpoint`, and as `batches` if "
    "that is set: this table stays complete up to the last acknowledged batch."
)
_REMEDY_OF_DELTA = (
    f"{_NEWEST} If it is lost, name a new folder as `checkpoint`: a Delta table continues with a new checkpoint. The "
    "last batch of the old one may come again."
)
POLL = 1.0
"""Seconds between two checks for finished batches, and for a signal."""


class LandingSource(Model):
    url: str = Field(
        pattern=r"^https?://", description="The mesh's admin address; those of several processes, with commas."
    )
    token: str | None = Field(default=None, repr=False, description="The admin address's token.")
    virtual_cluster: str = Field(min_length=1)
    group: str = Field(min_length=1)
    topics: tuple[str, ...] = Field(min_length=1)
    headers: bool = Field(default=True, description="Whether the table has a column for them.")
    options: dict[str, str] = Field(default_factory=dict, repr=False, description="Further options of the source.")


class Landing(Model):
    source: LandingSource
    table: str = Field(min_length=1, description="Folder of the table: a path or URL that Spark can write to.")
    checkpoint: str = Field(min_length=1, description="Folder of the checkpoint; as lasting as the table.")
    format: Literal["parquet", "delta"] = "parquet"
    batches: str | None = Field(
        default=None, min_length=1, description="Folder of the table of batches: TABLE_batches."
    )
    storage_options: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Of the package deltalake, for a Delta table that is not in files.",
    )
    trigger: float = Field(default=10.0, gt=0, le=86_400, description="Minimum seconds between two batches.")
    max_records_per_batch: int = Field(default=1_000_000, ge=1, le=100_000_000)
    max_bytes_per_batch: int | None = Field(
        default=None,
        ge=1,
        le=1 << 50,
        description="Approximate; 64 MiB for Delta, whose batches pass through the driver.",
    )
    one_file: bool = Field(default=False, description="One file for each topic and day of a batch, and not of a task.")
    max_records_per_file: int = Field(default=0, ge=0, description="0 for one file of each task, topic and day.")
    tasks: int = Field(default=1, ge=1, le=10_000, description="Minimum number of tasks of one batch.")


class WrongLanding(ValueError):
    """Raised with every wrong key, and the allowed values."""


def load(path: Path) -> Landing:
    """Reads the job in a file. Raises WrongLanding."""
    try:
        return Landing.model_validate(yaml.safe_load(path.read_text()))
    except (OSError, yaml.YAMLError) as problem:
        raise WrongLanding(str(problem)) from None
    except ValidationError as problem:
        found = problem.errors(include_url=False, include_input=False, include_context=False)
        raise WrongLanding("\n".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)) from None


def options_of(landing: Landing) -> Mapping[str, str]:
    """Returns the options of the source `kafka-mesh`."""
    source = landing.source
    options = {
        "mesh.admin.url": source.url,
        "mesh.virtual.cluster": source.virtual_cluster,
        "kafka.group.id": source.group,
        "subscribe": ",".join(source.topics),
        "includeHeaders": str(source.headers).lower(),
        "maxOffsetsPerTrigger": str(landing.max_records_per_batch),
        "minPartitions": str(landing.tasks),
    }
    most_bytes = landing.max_bytes_per_batch or (DELTA_BYTES if landing.format == "delta" else None)
    if most_bytes is not None:
        options["maxBytesPerTrigger"] = str(most_bytes)
    token = {"mesh.admin.token": source.token} if source.token is not None else {}
    return options | token | source.options


def start(spark: SparkSession, landing: Landing, available_now: bool = False) -> StreamingQuery:
    """Starts or continues a landing from its checkpoint. available_now: land the available records, then end. Raises
    OtherCheckpoint."""
    from pyspark.sql import functions

    check_checkpoint(spark, landing)

    stream = spark.readStream.format("kafka-mesh").options(**options_of(landing)).load()
    day = functions.to_date(functions.to_utc_timestamp("timestamp", spark.conf.get("spark.sql.session.timeZone")))
    rows = stream.withColumn("ingested_at", functions.current_timestamp()).withColumn("dt", day)
    if landing.one_file:
        rows = rows.repartition(landing.tasks, *PARTITIONS)
    writer = rows.writeStream.queryName("kafka-mesh landing").option("checkpointLocation", landing.checkpoint)
    writer = writer.foreachBatch((into_delta if landing.format == "delta" else into_parquet)(spark, landing))
    if available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{landing.trigger:g} seconds").start()


def checkpoint_of(spark: SparkSession, landing: Landing) -> Checkpoint:
    return Checkpoint(*(Folder(spark, f"{landing.checkpoint}/{name}") for name in ("offsets", "commits")))


def batches_of(spark: SparkSession, landing: Landing) -> Batches:
    """Returns the table of batches; `catch_up` writes the missing ones."""
    landed = landing.table if landing.format == "parquet" else None
    return Batches(spark, _folder_of_batches(landing), checkpoint_of(spark, landing), landed)


def claims_of(spark: SparkSession, landing: Landing) -> Claims:
    return Claims(Folder(spark, f"{landing.table}/{CLAIMS}"), uuid.uuid4().hex)


def _folder_of_batches(landing: Landing) -> str:
    return landing.batches or f"{landing.table.rstrip('/')}_batches"


def check_checkpoint(spark: SparkSession, landing: Landing) -> None:
    """Raises OtherCheckpoint if the table has batches that the checkpoint does not know, or knows with other
    records."""
    checkpoint, batches = checkpoint_of(spark, landing), batches_of(spark, landing)
    if landing.format == "delta":
        check(checkpoint, landing.checkpoint, _landed_in_delta(landing, checkpoint, batches), _REMEDY_OF_DELTA)
        return
    log = f"{landing.table}/_spark_metadata"
    claims = claims_of(spark, landing)
    last, claimed = batches.last(), claims.last()
    landed = [
        LandedBatch(log, SinkLog(Folder(spark, log)).last()),
        LandedBatch(f"{landing.table}/{CLAIMS}", claimed, partial(claims.is_of, claimed)),
        LandedBatch(_folder_of_batches(landing), last, partial(batches.is_of, last)),
    ]
    check(checkpoint, landing.checkpoint, landed, _REMEDY)


def _landed_in_delta(landing: Landing, checkpoint: Checkpoint, batches: Batches) -> Iterator[LandedBatch]:
    """Yields the last batches of the checkpoint. A new checkpoint has none: its batches are others."""
    planned = checkpoint.last()
    if planned == NONE:
        return
    holder = checkpoint.leased(planned).holder
    last = last_batch(landing.table, app_of(holder), landing.storage_options)
    if last is not None:
        yield LandedBatch(landing.table, last.number, lambda leased: last.is_of(leased.lease))
    # The table of batches has all batches of a checkpoint, up to its last one.
    for number in (planned + 1, planned, planned - 1):
        if batches.has(number, holder):
            yield LandedBatch(_folder_of_batches(landing), number, partial(batches.is_of, number))
            return


def app_of(holder: str) -> str:
    """Returns the name under which a Delta table has the batches of a checkpoint. Another checkpoint counts its batches
    from 0 again."""
    return f"kafka-mesh {holder}"


def into_parquet(spark: SparkSession, landing: Landing) -> Callable[[DataFrame, int], None]:
    """Returns the function for foreachBatch. It calls Spark's sink for files, which passes over a batch that its log
    has. Raises OtherCheckpoint if the batch may be another one."""
    checkpoint, claims = checkpoint_of(spark, landing), claims_of(spark, landing)

    def land_batch(frame: DataFrame, batch: int) -> None:
        claims.claim(batch, checkpoint.leased(batch).lease)
        add_batch(frame, batch, landing.table, PARTITIONS, {"maxRecordsPerFile": str(landing.max_records_per_file)})

    return land_batch


def into_delta(spark: SparkSession, landing: Landing) -> Callable[[DataFrame, int], None]:
    """Returns the function for foreachBatch. Both tables know their batches, so a repeated batch changes nothing."""
    checkpoint, batches = checkpoint_of(spark, landing), batches_of(spark, landing)

    def land_batch(frame: DataFrame, batch: int) -> None:
        rows = frame.toArrow()
        leased = checkpoint.leased(batch)
        app = app_of(leased.holder)
        append_once(landing.table, rows, app, batch, leased.lease, PARTITIONS, landing.storage_options)
        places = zip(*(rows[name].to_pylist() for name in ("cluster", "topic", "partition")), strict=True)
        batches.write(batch, leased, Counter(places))

    return land_batch


def land(spark: SparkSession, landing: Landing, is_stopped: Callable[[], bool], available_now: bool = False) -> None:
    """Lands until the query ends or `is_stopped` returns True; raises the query's error. If the error is that a Python
    process started too slowly, the query is started again. If another query has taken the table, raises
    OtherCheckpoint."""
    batches = batches_of(spark, landing)
    for attempt in range(ATTEMPTS):
        query = start(spark, landing, available_now)
        is_over = False
        try:
            while not (is_over or is_stopped()):
                is_over = query.awaitTermination(POLL)
                if landing.format == "parquet":
                    batches.catch_up()
            query.stop()
            return
        except Exception as problem:
            if attempt == ATTEMPTS - 1 or SLOW_START not in str(problem):
                check_checkpoint(spark, landing)
                raise


def run(landing: Landing, available_now: bool) -> None:
    """Runs a landing in the session of spark-submit, or in a local one on all cores. Returns when the query ends, or
    after SIGTERM; raises the query's error."""
    stopping = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: stopping.set())
    spark = session("kafka-mesh landing")
    try:
        land(spark, landing, stopping.is_set, available_now)
    finally:
        spark.stop()


if __name__ == "__main__":
    run(load(Path(sys.argv[1])), "--available-now" in sys.argv[2:])

"""The file of `kafka-mesh pipeline audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from mesh.config.base import Model
from mesh.config.values import Duration


class JournalTopic(Model):
    cluster: str = Field(min_length=1)
    topic: str = Field(min_length=1)


class Landed(Model):
    table: str = Field(min_length=1, description="Folder of a Parquet or Delta table with the columns of the source.")
    by: Literal["leases", "everybody"] = Field(
        default="leases", description="The holders whose acknowledged records must be in the table."
    )


class Reporting(Model):
    folder: str | None = Field(
        default=None, min_length=1, description="Folder of the page and its tables; default: STATE/report."
    )
    last: Duration | None = Field(default=None, description="How far back; default: the whole journal.")
    window: Duration | None = Field(default=None, description="Length of a window; default: for about sixty windows.")
    stuck: Duration = Field(default=60.0, description="How long a member may hold records and acknowledge none.")


class AuditJob(Model):
    virtual_cluster: str = Field(min_length=1)
    group: str = Field(min_length=1)
    upstream_group: str | None = Field(default=None, description="With the prefix, if the configuration has one.")
    topics: dict[str, tuple[str, ...]] = Field(min_length=1, description="Upstream topics by cluster.")
    clusters: dict[str, dict[str, str]] = Field(repr=False, description="librdkafka's properties, by cluster.")
    journal: JournalTopic
    landed: Landed | None = None
    state: str = Field(min_length=1, description="Folder of the findings, and of the memory for the next audit.")
    window: Duration = Field(default=3_600.0, description="Of the timestamps that are counted together.")
    report: Reporting = Field(default=Reporting(), description="Settings of `kafka-mesh pipeline report`.")
    patience: float = Field(
        default=5.0, ge=0, le=600, description="Seconds to wait for the latest commits in the journal."
    )

    @property
    def folder(self) -> Path:
        return Path(self.state)

    @property
    def report_folder(self) -> Path:
        return Path(self.report.folder) if self.report.folder is not None else self.folder / "report"

    @property
    def window_ms(self) -> int:
        return max(round(self.window * 1000), 1)

    @model_validator(mode="after")
    def _clusters_are_known(self) -> AuditJob:
        for name in (*self.topics, self.journal.cluster):
            if "bootstrap.servers" not in self.clusters.get(name, {}):
                raise ValueError(f"clusters.{name} has no bootstrap.servers")
        return self


class WrongAudit(ValueError):
    """Raised with every wrong key, and the allowed values."""


def load(path: Path) -> AuditJob:
    """Reads the job in a file. Raises WrongAudit."""
    try:
        return AuditJob.model_validate(yaml.safe_load(path.read_text()))
    except (OSError, yaml.YAMLError) as problem:
        raise WrongAudit(str(problem)) from None
    except ValidationError as problem:
        found = problem.errors(include_url=False, include_input=False, include_context=False)
        raise WrongAudit("\n".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)) from None

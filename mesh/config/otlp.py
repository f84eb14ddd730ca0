"""The configuration of spans and metrics by OTLP."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mesh.config.base import Model
from mesh.config.security.model import FilePath
from mesh.config.values import Count, Duration, http_url

_URL = http_url("an http or https URL, to which /v1/traces and /v1/metrics are added")


class OtlpSpans(Model):
    """Spans of deliveries, from the delivery until its records are settled or released."""

    one_in: Count = Field(default=1, description="One in this many delivered runs has a span.")
    links_one_in: Annotated[int, Field(ge=0)] = Field(
        default=100, description="One in this many is searched for traceparent headers; 0 for none."
    )
    limit: Annotated[Count, Field(le=1_000_000)] = Field(
        default=10_000, description="Open spans, and waiting events; beyond that they are dropped."
    )


class OtlpMetrics(Model):
    """The metrics of /metrics, sent to a collector."""

    interval: Annotated[Duration, Field(ge=1)] = Field(default=60.0, description="How often.")


class OtlpConfig(Model):
    """Spans and metrics by OTLP over HTTP."""

    endpoint: Annotated[str, _URL] = Field(description="Base URL of a collector.")
    headers: dict[str, str] = Field(default_factory=dict, repr=False, description="Sent with each request.")
    ca_file: FilePath | None = Field(default=None, description="Authorities of the collector's certificate.")
    timeout: Annotated[Duration, Field(le=60)] = Field(default=5.0, description="How long one request may take.")
    spans: OtlpSpans | None = Field(default=None, description="Send spans.")
    metrics: OtlpMetrics | None = Field(default=None, description="Send metrics.")

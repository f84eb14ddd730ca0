"""Interceptors, and the processes in which they run."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

from pydantic import Field

from mesh.config.base import Model
from mesh.config.values import Count, Duration, GroupPattern, Size, matching
from mesh.interceptors.chain import InterceptorName, OnFailure
from mesh.interceptors.spi import On

_NAME = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "at most 100 letters, digits, dots, underscores and hyphens")


class IsolationConfig(Enum):
    """The place where an interceptor runs."""

    AUTO = "auto"
    PROCESS = "process"
    INLINE = "inline"


class InterceptorConfig(Model):
    """An interceptor. Virtual clusters and routes name it."""

    name: Annotated[InterceptorName, _NAME] = Field(description="Its name in the rest of the configuration.")
    type: str = Field(description="A type that ships, or the name of an entry point of kafka_mesh.interceptors.")
    topics: tuple[GroupPattern, ...] = Field(description="Patterns of the topics whose records it sees.")
    on: tuple[On, ...] = Field(description="produce, fetch, or both.")
    principals: tuple[GroupPattern, ...] = Field(
        default=("*",), description="Patterns of the clients whose records it sees, as in User:billing."
    )
    config: dict[str, Any] = Field(default_factory=dict, repr=False, description="The keys of its type.")
    timeout: Duration = Field(default=5.0, description="How long all interceptors of a request may take.")
    retries: Annotated[int, Field(ge=0, le=10)] = Field(
        default=1, description="How often it is tried again after that, in another process."
    )
    on_failure: OnFailure = Field(
        default=OnFailure.FAIL, description="fail, pass; reject (only produce); drop (only fetch)."
    )
    isolation: IsolationConfig = Field(
        default=IsolationConfig.AUTO,
        description="process, inline; auto: inline for types that ship and read headers at most.",
    )


class InterceptorWorkersConfig(Model):
    """The processes in which the interceptors of each virtual cluster run."""

    count: Annotated[Count, Field(le=256)] = Field(default=2, description="How many processes.")
    memory: Size = Field(default=256 << 20, description="Memory that each may take for its work.")
    tasks: Count = Field(default=100_000, description="After the records of this many partitions one is replaced.")

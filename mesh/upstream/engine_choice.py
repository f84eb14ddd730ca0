"""Which engine reads the records of an upstream cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from mesh.upstream.engine import Engine, EngineEvent, EngineName, EngineOptions
from mesh.upstream.librdkafka.engine import LibrdkafkaEngine
from mesh.upstream.links.buffers import ReceiveBuffers
from mesh.upstream.links.connection_settings import own_access
from mesh.upstream.raw.engine import RawEngine


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine that was chosen for a cluster. reason: why it is librdkafka though raw was to be preferred, "" if it
    was not."""

    engine: EngineName
    reason: str = ""


def choose(wanted: Literal["auto", "raw", "librdkafka"], properties: Mapping[str, str]) -> Choice:
    """`raw` comes back as librdkafka too if it is not possible."""
    if wanted == "librdkafka":
        return Choice("librdkafka")
    access = own_access(properties)
    if isinstance(access, str):
        return Choice("librdkafka", access)
    return Choice("raw")


def make_engine(
    name: EngineName, options: EngineOptions, deliver: Callable[[EngineEvent], None], buffers: ReceiveBuffers
) -> Engine:
    """On the event loop that is running. buffers: shared by all engines of the process."""
    loop = asyncio.get_running_loop()
    if name == "raw":
        return RawEngine(options, deliver, loop, buffers)
    return LibrdkafkaEngine(options, deliver, loop)

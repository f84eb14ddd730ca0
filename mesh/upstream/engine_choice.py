"""Chooses the engine that reads the records of an upstream cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mesh.upstream.engine import Engine, EngineEvent, EngineName, EngineOptions
from mesh.upstream.librdkafka.engine import LibrdkafkaEngine
from mesh.upstream.links.buffers import ReceiveBuffers
from mesh.upstream.links.connection_settings import ConnectionSettings
from mesh.upstream.raw.engine import RawEngine


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine chosen for a cluster. settings: of the mesh's own connections; None if the properties allow none.
    reason: why the engine is librdkafka though raw was preferred; "" if it was not."""

    engine: EngineName
    settings: ConnectionSettings | None = None
    reason: str = ""


def choose(wanted: Literal["auto", "raw", "librdkafka"], settings: ConnectionSettings | str) -> EngineChoice:
    """Returns the wanted engine, or librdkafka if the properties do not allow raw. settings: as from
    `connection_settings_or_reason`."""
    if isinstance(settings, str):
        return EngineChoice("librdkafka", reason="" if wanted == "librdkafka" else settings)
    return EngineChoice("librdkafka" if wanted == "librdkafka" else "raw", settings)


def make_engine(
    name: EngineName, options: EngineOptions, deliver: Callable[[EngineEvent], None], buffers: ReceiveBuffers
) -> Engine:
    """Makes an engine on the running event loop. buffers: shared by all engines of the process."""
    loop = asyncio.get_running_loop()
    if name == "raw":
        return RawEngine(options, deliver, loop, buffers)
    return LibrdkafkaEngine(options, deliver, loop)

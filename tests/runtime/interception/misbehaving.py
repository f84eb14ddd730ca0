"""Interceptors that hang, die, use up memory and return invalid answers, for workers."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mesh.interceptors.spi import KEEP, Effect, Interceptor, NoConfig, Outcome, Record, Where

_HELD: list[bytes] = []


class MisbehavingConfig(NoConfig):
    """once: a file; while it exists, an interceptor that misbehaved once does not do so again."""

    once: Path | None = None


class Misbehaving(Interceptor):
    """Misbehaves as the value of a record says."""

    effect = Effect.MAP
    config = MisbehavingConfig

    def __init__(self, config: MisbehavingConfig) -> None:
        self._once = config.once

    def intercept(self, record: Record, where: Where) -> Outcome:
        if self._once is not None:
            if self._once.exists():
                return record.with_value(b"done")
            self._once.touch()
        match record.value:
            case b"hang":
                time.sleep(600)
            case b"die":
                os._exit(7)
            case b"exit":
                raise SystemExit(3)
            case b"eat":
                while True:
                    _HELD.append(bytes(16 << 20))
            case b"rubbish":
                for fd in range(3, 64):
                    try:
                        os.write(fd, b"\xff" * 64)
                    except OSError:
                        continue
                os._exit(0)
            case b"pid":
                return record.with_value(str(os.getpid()).encode())
        return KEEP

"""First inputs for a corpus: valid requests of every API and version, and conversations about existing groups and
topics.

python -m tests.fuzz.seeds FOLDER
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from pathlib import Path
from unittest.mock import patch

import structlog

from tests.fake_time import FakeTimeLoop
from tests.fuzz.targets import HEADERS, PEERS, Server, play, same_ids, step, steps
from tests.listener.fuzz import Generator
from tests.wire.entities import ALL_VERSIONS, header_and_body

SCRIPTS = 150
STEPS = 14


def decoder_seeds() -> list[bytes]:
    return [
        bytes((number,)) + header_and_body(api_key, version)[1]
        for number, (api_key, version) in enumerate(ALL_VERSIONS)
    ]


def script(seed: int) -> bytes:
    """A conversation that continues from the server's answers."""
    with asyncio.Runner(loop_factory=FakeTimeLoop) as runner, patch("uuid.uuid4", same_ids()):
        return runner.run(_script(random.Random(seed)))


async def _script(generator: random.Random) -> bytes:
    bench, peers = await Server().bench()
    requests = Generator(generator, bench)
    written = bytearray()
    for _ in range(STEPS):
        peer = generator.randrange(PEERS)
        match generator.random():
            case chance if chance < 0.15:
                each = step(6, peer, choice=generator.randrange(8))
            case chance if chance < 0.25:
                each = step(5, peer, choice=generator.randrange(256))
            case chance if chance < 0.3:
                each = step(7, peer)
            case _:
                request = requests.well_formed()
                key, version = int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big")
                at = next(i for i, api in enumerate(ALL_VERSIONS) if (int(api[0]), api[1]) == (key, version))
                length = len(request) - _body_of(request, key, version)
                each = step(0, peer, request[len(request) - length :], at)
        written += each
        await play(bench, peers, steps(each)[0])
    return bytes(written)


def _body_of(request: bytes, key: int, version: int) -> int:
    """Where the body of a request begins: behind the client id, and the tagged fields where there are some."""
    at = next(i for i, api in enumerate(ALL_VERSIONS) if (int(api[0]), api[1]) == (key, version))
    client_id = 10 + int.from_bytes(request[8:10], "big")
    header = HEADERS[at]
    tagged = len(header) - 10 - int.from_bytes(header[8:10], "big")
    return client_id + tagged


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    folder = Path(sys.argv[1])
    for name, seeds in (("decode", decoder_seeds()), ("server", [script(seed) for seed in range(SCRIPTS)])):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds):
            (folder / name / f"seed-{number:03}").write_bytes(seed)


if __name__ == "__main__":
    main()

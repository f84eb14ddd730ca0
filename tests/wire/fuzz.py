"""Hostile requests by the hundred thousand, in a child process: it stays alive, and raises only ProtocolError.

    python -m tests.wire.fuzz --seed 7 --requests 100000

Most requests are valid ones of every API and version with bits flipped, numbers replaced by extreme ones, parts cut out
or repeated, mostly behind the header; some are a valid header with a random body, or with a huge count and enough bytes
to go with it; the rest is random altogether. A new `ServerConnection` decodes each of them. The same seed makes the
same requests.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

from mesh.wire.apis import APIS
from mesh.wire.connection import ServerConnection
from mesh.wire.errors import ProtocolError
from mesh.wire.writer import encode_unsigned_varint
from tests.wire.entities import ALL_VERSIONS, frame, header_and_body

MAX_GROWTH_KIB = 128 * 1024
"""The most growth of the child while it decodes: 4 MiB frames cost a few times their size, hostile counts nothing."""

SERVED = {api_key: (versions.lowest, versions.highest) for api_key, versions in APIS.items()}
VALID = [header_and_body(api_key, version) for api_key, version in ALL_VERSIONS]

EXTREMES = [
    value.to_bytes(size, "big", signed=True)
    for size in (1, 2, 4, 8)
    for value in (-(2 ** (8 * size - 1)), -2, -1, 0, 1, 2 ** (8 * size - 2), 2 ** (8 * size - 1) - 1)
] + [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\x01"]
"""Lengths and counts in every encoding: integers of each size, and varints."""

HUGE_COUNTS = [(30_000).to_bytes(4, "big"), encode_unsigned_varint(30_000)]
"""More than MAX_ELEMENTS, but not too many for the bytes behind it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """refused: how many requests ended in a ProtocolError, by its reason. growth_kib: of the largest resident size."""

    requests: int
    decoded: int
    refused: Counter[str]
    growth_kib: int


def hostile_request(random: Random) -> bytes:
    """The bytes of one request, without its frame length."""
    header, body = random.choice(VALID)
    kind = random.random()
    if kind < 0.7:
        return header + mutated(random, body)
    if kind < 0.8:
        return mutated(random, header + body)
    if kind < 0.9:
        return header + random.randbytes(random.randint(0, 200))
    if kind < 0.91:
        return header + body[: random.randint(0, 40)] + random.choice(HUGE_COUNTS) + bytes(2**20)
    return random.randbytes(random.randint(0, 100))


def mutated(random: Random, request: bytes) -> bytes:
    """One to three changes, each as likely at one place as at another."""
    changed = bytearray(request)
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(changed) + 1)
        match random.randrange(6):
            case 0 if place < len(changed):
                changed[place] ^= 1 << random.randrange(8)
            case 1:
                extreme = random.choice(EXTREMES)
                changed[place : place + len(extreme)] = extreme
            case 2:
                del changed[place:]
            case 3:
                del changed[place : place + random.randint(1, 8)]
            case 4:
                changed[place:place] = random.choice(EXTREMES)
            case _:
                changed += changed[place : place + 50]
    return bytes(changed)


def run(seed: int, requests: int) -> Outcome:
    """Runs the requests. Raises every exception other than ProtocolError."""
    random = Random(seed)
    refused: Counter[str] = Counter()
    decoded = 0
    before = resident_kib()
    for number in range(requests):
        request = hostile_request(random)
        stream = frame(request) if random.random() < 0.98 else random.choice(EXTREMES) + request
        try:
            decoded += receive(stream)
        except ProtocolError as error:
            refused[error.reason] += 1
        except BaseException:
            print(f"request {number} of seed {seed}: {stream.hex()}", file=sys.stderr)
            raise
    return Outcome(requests, decoded, refused, resident_kib() - before)


def receive(stream: bytes) -> int:
    """The number of requests that could be decoded."""
    received = ServerConnection(SERVED).receive_data(stream)
    for request in received:
        request.decode()
    return len(received)


def resident_kib() -> int:
    """The largest resident size of this process so far.

    It avoids ru_maxrss where possible: under Linux a child inherits its parent's value.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1])


def in_child(seed: int, requests: int) -> subprocess.CompletedProcess[str]:
    """Measures in a separate process: a crash ends only that one."""
    command = [sys.executable, "-m", "tests.wire.fuzz", "--child", "--seed", str(seed), "--requests", str(requests)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.wire.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.child:
        child = in_child(arguments.seed, arguments.requests)
        print(child.stdout, end="")
        print(child.stderr, end="", file=sys.stderr)
        return int(child.returncode != 0)
    outcome = run(arguments.seed, arguments.requests)
    print(f"{outcome.requests} requests, {outcome.decoded} decoded, {outcome.growth_kib} KiB grown")
    for reason, number in outcome.refused.most_common():
        print(f"  {reason}: {number}")
    return int(outcome.growth_kib > MAX_GROWTH_KIB)


if __name__ == "__main__":
    sys.exit(main())

"""The bytes of one whole consumer life, in the oldest versions that real clients use and in the newest, annotated.

A line of a golden file is the hexadecimal bytes of one field, and what they mean; `==` begins a frame. Requests go in,
and what comes out must be the responses, byte for byte. Member ids and slots are not random here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from tests.pool.apis.harness import Client, Mesh

FOLDER = Path(__file__).parent / "golden"


@dataclass(frozen=True, slots=True)
class Exchange:
    name: str
    request: bytes
    response: bytes


def exchanges(path: Path) -> list[Exchange]:
    frames: list[tuple[str, bytearray]] = []
    for line in path.read_text().splitlines():
        if line.startswith("=="):
            frames.append((line.removeprefix("== "), bytearray()))
        elif line:
            frames[-1][1].extend(bytes.fromhex(line.split("  ")[0]))
    return [
        Exchange(asked.removesuffix(" request"), bytes(request), bytes(response))
        for (asked, request), (_, response) in zip(frames[::2], frames[1::2], strict=True)
    ]


@pytest.mark.parametrize("name", ["oldest", "newest"])
def test_a_whole_life(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.pool.groups.coordinator.uuid.uuid4", lambda: UUID(int=1))
    mesh = Mesh()
    client = Client(mesh)
    for exchange in exchanges(FOLDER / f"{name}.txt"):
        answer = client.receive(exchange.request)
        if exchange.name.startswith("Fetch"):
            assert answer == b""
            mesh.produce(0, count=2)
        mesh.advance(0.3)
        assert (answer + client.sent()).hex() == exchange.response.hex(), exchange.name
    assert not mesh.pool.members.by_id, "it has left"


def test_the_files_are_what_they_say() -> None:
    names = ["ApiVersions", "Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "Fetch"]
    names += ["OffsetCommit", "Heartbeat", "LeaveGroup"]
    for file in ("oldest", "newest"):
        found = [exchange.name.split()[0] for exchange in exchanges(FOLDER / f"{file}.txt")]
        assert list(dict.fromkeys(found)) == names

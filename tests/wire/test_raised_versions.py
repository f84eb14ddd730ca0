"""The versions that the mesh serves in addition, depending on those of a broker."""

from __future__ import annotations

import pytest

from mesh.wire.api_versions_filter import limited
from mesh.wire.apis import ApiKey
from mesh.wire.raised_versions import raised
from mesh.wire.relayed_apis import ADVERTISED_APIS
from tests.wire.test_api_versions_filter import CORRELATION_ID, entry, versions_of

OF_4_3 = {42: (0, 2), 88: (0, 0), 89: (0, 0)}
RAISED = {42: (0, 3), 88: (0, 1), 89: (0, 1), 93: (0, 0)}


@pytest.mark.parametrize(
    ("served", "more"),
    [
        (OF_4_3, RAISED),
        ({42: (1, 2), 88: (0, 0)}, {42: (1, 3), 88: (0, 1), 93: (0, 0)}),
        (RAISED, {}),
        ({42: (0, 2)}, {}),
        ({}, {}),
    ],
)
def test_only_brokers_with_streams_groups_and_without_descriptions_are_raised(
    served: dict[int, tuple[int, int]], more: dict[int, tuple[int, int]]
) -> None:
    assert raised(served) == more


@pytest.mark.parametrize("version", [0, 3])
def test_an_answer_lists_what_is_raised(version: int) -> None:
    tags = b"\0" if version >= 3 else b""
    entries = b"".join(entry(key, *each) + tags for key, each in [*OF_4_3.items(), (18, (0, 4))])
    count = b"\x05" if version >= 3 else b"\0\0\0\x04"
    body = CORRELATION_ID + b"\0\0" + count + entries + b"\0\0\0\0"
    answer = b"".join(limited(version, memoryview(body), ADVERTISED_APIS, raised))
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    assert versions_of(version, memoryview(answer)[4:]) == {**RAISED, 18: (0, 4)}
    assert answer.endswith(b"\0\0\0\0")


def test_what_is_not_to_be_served_is_not_raised() -> None:
    entries = b"".join(entry(key, *each) for key, each in OF_4_3.items())
    body = CORRELATION_ID + b"\0\0" + b"\0\0\0\x03" + entries
    served = {ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 1)}
    answer = b"".join(limited(0, memoryview(body), served, raised))
    assert versions_of(0, memoryview(answer)[4:]) == {88: (0, 1)}

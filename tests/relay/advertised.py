"""The APIs that brokers advertise to clients, and the versions that these tests ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from tests.relay.front import BETWEEN_BROKERS
from tests.relay.requests import KNOWN, NAMES
from tests.relay.scripts.newer import NEWER

if TYPE_CHECKING:
    from _pytest.mark.structures import MarkDecorator, ParameterSet

_NEWER = {93: "streams_group_topology_description_update", 94: "unregister_controller"}
"""APIs that kio does not know."""

OF_4_3: Mapping[int, tuple[int, int]] = {
    0: (0, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    17: (0, 1),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 5),
    23: (2, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (1, 2),
    28: (0, 5),
    29: (1, 3),
    30: (1, 3),
    31: (1, 3),
    32: (1, 4),
    33: (0, 2),
    34: (1, 2),
    35: (1, 5),
    36: (0, 2),
    37: (0, 3),
    38: (1, 3),
    39: (1, 2),
    40: (1, 2),
    41: (1, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    51: (0, 0),
    55: (0, 2),
    57: (0, 2),
    60: (0, 2),
    61: (0, 0),
    64: (0, 0),
    65: (0, 0),
    66: (0, 2),
    68: (0, 1),
    69: (0, 1),
    74: (0, 1),
    75: (0, 0),
    76: (1, 1),
    77: (1, 1),
    78: (1, 2),
    79: (1, 2),
    80: (0, 1),
    81: (0, 0),
    83: (0, 0),
    84: (0, 0),
    85: (0, 1),
    86: (0, 0),
    87: (0, 1),
    88: (0, 0),
    89: (0, 0),
    90: (0, 1),
    91: (0, 0),
    92: (0, 0),
}
"""The lowest and the highest version by API, of Kafka 4.3.1."""

OF_4_4: Mapping[int, tuple[int, int]] = {
    **OF_4_3,
    18: (0, 5),
    28: (0, 6),
    42: (0, 3),
    88: (0, 1),
    89: (0, 1),
    93: (0, 0),
    94: (0, 0),
}
"""The same for Kafka 4.4.0."""

_NOT_REALLY: Mapping[int, frozenset[int]] = {0: frozenset(range(3))}
"""Advertised for librdkafka (KAFKA-18659), but refused."""


def name_of(api_key: int) -> str:
    """The name of an API in kio's spelling."""
    return NAMES.get(api_key) or _NEWER[api_key]


def asked(advertised: Mapping[int, tuple[int, int]]) -> list[tuple[str, int]]:
    """Name and version of each request: all that brokers advertise to clients and that are not for brokers, except for
    the earliest versions, which Kafka 4 removed."""
    return [
        (name_of(key), version)
        for key, (low, high) in advertised.items()
        if key not in BETWEEN_BROKERS
        for version in range(low, high + 1)
        if version not in _NOT_REALLY.get(key, ()) and _is_known(name_of(key), version)
    ]


def ends_first(questions: list[tuple[str, int]]) -> list[ParameterSet]:
    """Parameters for `questions`: the first and the last version of each API belong to `make test-long`, those between
    to `make test-deep`."""
    return _ends(questions, (), (pytest.mark.long, pytest.mark.deep))


def smoke_of_ends(questions: list[tuple[str, int]]) -> list[ParameterSet]:
    """The same for `make test`: it has the first and the last version of each API."""
    return _ends(questions, (pytest.mark.smoke,), ())


def _ends(
    questions: list[tuple[str, int]], at_ends: Sequence[MarkDecorator], between: Sequence[MarkDecorator]
) -> list[ParameterSet]:
    versions: dict[str, list[int]] = {}
    for api, version in questions:
        versions.setdefault(api, []).append(version)
    return [
        pytest.param(
            api,
            version,
            id=f"{api}-{version}",
            marks=at_ends if version in (versions[api][0], versions[api][-1]) else between,
        )
        for api, version in questions
    ]


def _is_known(api: str, version: int) -> bool:
    return version in KNOWN.get(api, ()) or (api, version) in NEWER

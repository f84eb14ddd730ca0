"""The clients with which a test runs."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest

from tests.clients.bench import Client

QUICK = (Client.AIOKAFKA,)
"""The clients that are installed with the tests, and start at once."""
OFTEN = (Client.CONFLUENT, Client.JAVA, Client.FRANZ)
"""The protocol libraries of three languages."""


def clients(
    chosen: Iterable[Client] = Client, *, quick: bool = False, often: Container[Client] = tuple(Client)
) -> list[Any]:
    """Parameters for `chosen`: those of `often` belong to `make test-long`, others to `make test-deep`; with `quick`
    those of QUICK run every time."""
    return [
        pytest.param(client, id=client.value.strip("@").replace("/", "-"), marks=_marks(client, quick, often))
        for client in chosen
    ]


def _marks(client: Client, quick: bool, often: Container[Client]) -> list[pytest.MarkDecorator]:
    if quick and client in QUICK:
        return []
    return [pytest.mark.long] if client in often else [pytest.mark.long, pytest.mark.deep]

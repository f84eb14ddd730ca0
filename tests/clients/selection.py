"""Which clients a test runs with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.clients.bench import Client

QUICK = (Client.AIOKAFKA, Client.KAFKA_PYTHON)


def clients(chosen: Iterable[Client] = Client, *, quick: bool = False) -> list[Any]:
    """Parameters for `chosen`: all belong to `make test-long`; with `quick` those of QUICK run every time."""
    return [
        pytest.param(client, id=client.value.strip("@").replace("/", "-"), marks=_marks(client, quick))
        for client in chosen
    ]


def _marks(client: Client, quick: bool) -> list[pytest.MarkDecorator]:
    return [] if quick and client in QUICK else [pytest.mark.long]

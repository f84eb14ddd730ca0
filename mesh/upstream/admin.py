"""The admin client of a consumer's thread, made at its first use."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mesh.upstream.librdkafka_properties import Properties, connection_properties

FIRST_TIMEOUT: Final = 0.5
ANY_TOPIC: Final = "__consumer_offsets"
_METADATA = {"metadata.max.age.ms": 5_000}
"""Overrides librdkafka's default, with which the client asks old leaders for 15 minutes before it looks for new
ones."""


class LazyAdmin:
    """An admin client that is made at its first use. It must outlive the futures that it returns, or they never
    complete."""

    def __init__(self, properties: Properties) -> None:
        self._properties = properties
        self._client: AdminClient | None = None
        self._is_connected = False
        self._ask_at = 0.0

    def client(self) -> AdminClient:
        if self._client is None:
            self._client = AdminClient({**connection_properties(self._properties), **_METADATA})
        self._client.poll(0)  # otherwise its log lines pile up
        return self._client

    def connect(self, now: float) -> bool:
        """Returns whether the client has ever had an answer. If not, it sends a request and waits at most
        `FIRST_TIMEOUT` seconds; for as long again after a failure it sends none.

        A `list_offsets` of a client that is still connecting sometimes hangs until its timeout (2.16: 9 of 150 clients;
        0 of 300 that had had an answer).
        """
        if not self._is_connected and now >= self._ask_at:
            try:
                self.client().list_topics(ANY_TOPIC, timeout=FIRST_TIMEOUT)
            except KafkaException:
                self._ask_at = now + 2 * FIRST_TIMEOUT
            else:
                self._is_connected = True
        return self._is_connected

    def close(self) -> None:
        self._client, self._is_connected = None, False

"""The admin client of a consumer's thread, made when something is first looked up."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mesh.upstream.librdkafka_properties import Properties, connection_properties

FIRST_TIMEOUT: Final = 0.5
ANY_TOPIC: Final = "__consumer_offsets"
_METADATA = {"metadata.max.age.ms": 5_000}
"""It asks old leaders, and does not look for new ones, until what it knows of them expires: after 15 minutes."""


class LazyAdmin:
    """Must outlive the futures it gives, or they never end."""

    def __init__(self, properties: Properties) -> None:
        self._properties = properties
        self._client: AdminClient | None = None
        self._is_connected = False
        self._ask_at = 0.0

    def client(self) -> AdminClient:
        if self._client is None:
            self._client = AdminClient({**connection_properties(self._properties), **_METADATA})
        self._client.poll(0)  # else the lines of its log pile up
        return self._client

    def connect(self, now: float) -> bool:
        """Whether it has ever had an answer. Else it asks for one, and waits, for `FIRST_TIMEOUT` seconds at most and
        as long again without waiting.

        While a client connects, its `list_offsets` now and then waits in vain, for all the time it has (2.16: 9 of 150
        clients; 0 of 300 that had had an answer).
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

"""The admin client of a consumer's thread, made at its first use."""

from __future__ import annotations

from collections import deque
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mesh.upstream.librdkafka_properties import Properties, connection_properties
from mesh.upstream.renewed import Renewed

FIRST_TIMEOUT: Final = 0.5
ANY_TOPIC: Final = "__consumer_offsets"
_METADATA = {"metadata.max.age.ms": 5_000}
"""Overrides librdkafka's default, with which the client asks old leaders for 15 minutes before it looks for new
ones."""


class LazyAdmin:
    """An admin client that is made at its first use, and again when the files in its properties change. It must outlive
    the futures that it returns, or they never complete."""

    def __init__(self, properties: Properties) -> None:
        made_of = {**connection_properties(properties), **_METADATA}
        self._clients = Renewed("admin", made_of, lambda: AdminClient(made_of), self._retire)
        self._retired: deque[AdminClient] = deque(maxlen=1)
        self._is_connected = False
        self._ask_at = 0.0

    def client(self) -> AdminClient:
        client = self._clients.get()
        client.poll(0)  # otherwise its log lines pile up
        return client

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

    def change_login(self, username: str, password: str) -> None:
        """Uses this user name and password for SASL from the next connection on."""
        self._clients.change_login(username, password)

    def close(self) -> None:
        self._clients.forget()
        self._retired.clear()
        self._is_connected = False

    def _retire(self, client: AdminClient) -> None:
        # Until the next replacement its futures have completed, or their time is over.
        self._retired.append(client)
        self._is_connected = False

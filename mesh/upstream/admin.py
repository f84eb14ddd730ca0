"""The admin client of a consumer's thread, made when something is first looked up."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from mesh.upstream.properties import Properties, connection_properties

_METADATA = {"metadata.max.age.ms": 5_000}
"""It asks old leaders, and does not look for new ones, until what it knows of them expires: after 15 minutes."""


class LazyAdmin:
    """Must outlive the futures it gives, or they never end."""

    def __init__(self, properties: Properties) -> None:
        self._properties = properties
        self._client: AdminClient | None = None

    def client(self) -> AdminClient:
        if self._client is None:
            self._client = AdminClient({**connection_properties(self._properties), **_METADATA})
        self._client.poll(0)  # else the lines of its log pile up
        return self._client

    def close(self) -> None:
        self._client = None

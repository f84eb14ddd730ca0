"""The files in the properties of librdkafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from mesh.files import is_irregular

FILES: Final = (
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location"),
    "ssl.keystore.location",
)
"""The properties of librdkafka that name files."""


def check_files(properties: Mapping[str, Any]) -> None:
    """Raises KafkaException if one of the files is neither a regular file nor a folder. Call it before a client is
    made: librdkafka would wait for the other end of a pipe, and no other thread of Python runs meanwhile."""
    for name in FILES:
        path = properties.get(name)
        if path and is_irregular(path):
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"{name}: {path} is not a regular file"))

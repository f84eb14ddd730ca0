"""librdkafka's mock cluster inside of this process, with groups that form at once."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final
from weakref import finalize

import confluent_kafka.cimpl

_PRODUCER: Final = 0
_REASON_BYTES: Final = 512


class EmbeddedCluster:
    """A mock cluster with real sockets, until the object is gone. A topic has four partitions, and a request for its
    metadata creates it.

    By default a new group waits three seconds for further members, as in Kafka. A test would wait as long.
    """

    def __init__(self, brokers: int = 1) -> None:
        library = _library()
        reason = ctypes.create_string_buffer(_REASON_BYTES)
        properties = library.rd_kafka_conf_new()
        library.rd_kafka_conf_set(properties, b"log_level", b"0", reason, _REASON_BYTES)
        host = library.rd_kafka_new(_PRODUCER, properties, reason, _REASON_BYTES)
        if not host:
            raise RuntimeError(reason.value.decode())
        cluster = library.rd_kafka_mock_cluster_new(host, brokers)
        library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0)
        self.bootstrap_servers: str = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
        finalize(self, _destroy, host, cluster)


def _destroy(host: int, cluster: int) -> None:
    library = _library()
    library.rd_kafka_mock_cluster_destroy(cluster)
    library.rd_kafka_destroy(host)


@cache
def _library() -> ctypes.CDLL:
    """The librdkafka of confluent-kafka, which is in its package, under another name on each platform."""
    library = ctypes.CDLL(confluent_kafka.cimpl.__file__)
    handle, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
    for name, result, *arguments in (
        ("rd_kafka_conf_new", handle),
        ("rd_kafka_conf_set", number, handle, text, text, text, ctypes.c_size_t),
        ("rd_kafka_new", handle, number, handle, text, ctypes.c_size_t),
        ("rd_kafka_destroy", None, handle),
        ("rd_kafka_mock_cluster_new", handle, handle, number),
        ("rd_kafka_mock_cluster_bootstraps", text, handle),
        ("rd_kafka_mock_cluster_destroy", None, handle),
        ("rd_kafka_mock_group_initial_rebalance_delay_ms", None, handle, ctypes.c_int32),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library

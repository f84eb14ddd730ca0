"""`python -m mesh.demo.processes.clusters TOPIC ADDRESS_FILE [TOPIC...]`: runs one embedded cluster, librdkafka's mock,
until SIGTERM.

It is one broker on a free loopback port, which it writes to ADDRESS_FILE. Its topics have four partitions, of which it
keeps the last 5 MB each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer

from mesh.demo.processes.signals import StopRequest

_TIMEOUT = 10.0


def serve(topics: Sequence[str], address_file: Path) -> None:
    """Runs a cluster with these topics. Its address is in the file when it is ready."""
    with StopRequest() as stop:
        # The cluster is part of this client. A request for a topic's metadata creates the topic.
        host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        for topic in topics:
            (broker,) = host.list_topics(topic, timeout=_TIMEOUT).brokers.values()
        complete = address_file.with_suffix(".new")
        complete.write_text(f"{broker.host}:{broker.port}")
        os.replace(complete, address_file)
        while not stop.wait(3600):
            pass


if __name__ == "__main__":
    serve([sys.argv[1], *sys.argv[3:]], Path(sys.argv[2]))

"""Checks the options of `spark.readStream.format("kafka-mesh")`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

URL, TOKEN, CA = "mesh.admin.url", "mesh.admin.token", "mesh.admin.ca.location"
VIRTUAL_CLUSTER, TOPICS, GROUP = "mesh.virtual.cluster", "subscribe", "kafka.group.id"
TTL, TIMEOUT = "mesh.lease.ttl.seconds", "mesh.timeout.seconds"
MOST, MOST_BYTES, PIECES = "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minPartitions"
HEADERS, DATA_LOSS, LEASE_LOSS = "includeHeaders", "failOnDataLoss", "failOnLeaseLoss"
KNOWN = (
    URL, TOKEN, CA, VIRTUAL_CLUSTER, TOPICS, GROUP, TTL, TIMEOUT, MOST, MOST_BYTES, PIECES, HEADERS, DATA_LOSS,
    LEASE_LOSS,
)  # fmt: skip
ELSEWHERE = {
    "startingoffsets": "the configuration of the mesh says where a group without positions begins (`start`)",
    "endingoffsets": "a stream has no end",
    "kafka.bootstrap.servers": "the mesh names the upstream clusters; say kafka.<cluster>.<property> for one of them",
    "subscribepattern": "name the topics, separated by commas",
    "assign": "the mesh assigns ranges; name topics with `subscribe`",
}


class WrongOption(ValueError):
    """Raised for a wrong option, with its value and the allowed values."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the source.

    urls: admin addresses of the processes of one mesh.
    ttl, timeout: in seconds.
    most: the most offsets of one trigger, None for all available ones. most_bytes: their approximate bytes in the logs.
    pieces: the least number of tasks of one trigger.
    clusters: librdkafka properties for reading from an upstream cluster, by its name.
    """

    urls: tuple[str, ...]
    virtual_cluster: str
    topics: tuple[str, ...]
    group: str
    token: str | None = field(default=None, repr=False)
    ca: str | None = None
    ttl: float = 1_800.0
    timeout: float = 300.0
    most: int | None = None
    most_bytes: int | None = None
    pieces: int = 1
    headers: bool = False
    fail_on_data_loss: bool = True
    fail_on_lease_loss: bool = True
    clusters: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)


def parse(given: Mapping[str, str]) -> Options:
    """Parses options with keys in any case, as Spark passes them. Raises WrongOption."""
    options = {key.lower(): value for key, value in given.items()}
    known = {name.lower(): name for name in KNOWN}
    clusters: dict[str, dict[str, str]] = {}
    for key in options:
        if key in known:
            continue
        parts = key.split(".", 2)
        if key in ELSEWHERE or parts[0] != "kafka" or len(parts) < 3:
            allowed = ELSEWHERE.get(key, f"{', '.join(KNOWN)}, kafka.<cluster>.<property>")
            raise WrongOption(f"option {key!r} is not known here: {allowed}")
        clusters.setdefault(parts[1], {})[parts[2]] = options[key]
    urls = tuple(url.strip().rstrip("/") for url in _needed(options, URL).split(","))
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise WrongOption(f"option {URL!r} has {url!r}; allowed is http://HOST:PORT or https://HOST:PORT")
    return Options(
        urls=urls,
        virtual_cluster=_needed(options, VIRTUAL_CLUSTER),
        topics=tuple(topic.strip() for topic in _needed(options, TOPICS).split(",") if topic.strip()),
        group=_needed(options, GROUP),
        token=options.get(TOKEN),
        ca=options.get(CA.lower()),
        ttl=_number(options, TTL, 1_800, 60, 86_400),
        timeout=_number(options, TIMEOUT, 300, 1, 86_400),
        most=_number(options, MOST, 0, 1, 100_000_000) or None,
        most_bytes=_number(options, MOST_BYTES, 0, 1, 1 << 50) or None,
        pieces=_number(options, PIECES, 1, 1, 10_000),
        headers=_truth(options, HEADERS, False),
        fail_on_data_loss=_truth(options, DATA_LOSS, True),
        fail_on_lease_loss=_truth(options, LEASE_LOSS, True),
        clusters=clusters,
    )


def _needed(options: Mapping[str, str], name: str) -> str:
    value = options.get(name.lower(), "").strip()
    if not value:
        raise WrongOption(f"option {name!r} is missing")
    return value


def _number(options: Mapping[str, str], name: str, default: int, lowest: int, highest: int) -> int:
    value = options.get(name.lower())
    if value is None:
        return default
    try:
        number = int(value)
    except ValueError:
        number = lowest - 1
    if not lowest <= number <= highest:
        raise WrongOption(f"option {name!r} is {value!r}; allowed is a number from {lowest} to {highest}")
    return number


def _truth(options: Mapping[str, str], name: str, default: bool) -> bool:
    value = options.get(name.lower(), str(default)).lower()
    if value not in ("true", "false"):
        raise WrongOption(f"option {name!r} is {value!r}; allowed is true or false")
    return value == "true"

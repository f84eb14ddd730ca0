"""What a field of a message is to somebody who passes the message on."""

from __future__ import annotations

from enum import Enum, auto


class Kind(Enum):
    """The kind of entity that a field holds, or what has to be known of it to find those of others.

    RESOURCE_TYPE says what RESOURCE_NAME beside it is, KEY_TYPE what KEY beside it is. ENDPOINT_TYPE says whether the
    nodes behind it are brokers. COORDINATOR_ERROR becomes COORDINATOR_NOT_AVAILABLE where clients cannot reach the
    coordinator.
    """

    NONE = auto()
    NODE = auto()
    HOST = auto()
    PORT = auto()
    CLUSTER_ID = auto()
    TOPIC = auto()
    TOPIC_ID = auto()
    TOPIC_PATTERN = auto()
    GROUP = auto()
    TRANSACTIONAL_ID = auto()
    TRANSACTIONAL_ID_PATTERN = auto()
    PRODUCER = auto()
    RESOURCE_TYPE = auto()
    RESOURCE_NAME = auto()
    KEY_TYPE = auto()
    KEY = auto()
    COORDINATOR_KEY = auto()
    COORDINATOR_ERROR = auto()
    ENDPOINT_TYPE = auto()
    SUBSCRIPTION = auto()
    ASSIGNMENT = auto()


class Side(Enum):
    """Which of the two messages of an API."""

    REQUEST = auto()
    RESPONSE = auto()

"""The kinds of fields in a message, for the programs that pass messages on."""

from __future__ import annotations

from enum import Enum, auto


class EntityKind(Enum):
    """The kind of entity in a field, or a kind that helps to find other entities.

    RESOURCE_TYPE is the type of the RESOURCE_NAME next to it, KEY_TYPE that of the KEY next to it. ENDPOINT_TYPE tells
    whether the nodes after it are brokers. COORDINATOR_ERROR becomes COORDINATOR_NOT_AVAILABLE if clients cannot reach
    the coordinator. PARTITION is a partition of the topic before it. LEADER_EPOCH is the epoch of the partition before
    it, as a client or a broker knows it; RECORD_EPOCH is the epoch of a record that a client has read. END_EPOCH and
    END_OFFSET are a leader epoch and the end offset of its log.
    """

    NONE = auto()
    NODE = auto()
    HOST = auto()
    PORT = auto()
    CLUSTER_ID = auto()
    TOPIC = auto()
    TOPIC_ID = auto()
    TOPIC_PATTERN = auto()
    PARTITION = auto()
    LEADER_EPOCH = auto()
    RECORD_EPOCH = auto()
    END_EPOCH = auto()
    END_OFFSET = auto()
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


class Direction(Enum):
    """The direction of a message of an API: request or response."""

    REQUEST = auto()
    RESPONSE = auto()

"""The target `pool`, and what it is made of."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import Discriminator, Field, StringConstraints, Tag

from mesh.config.base import Model, keys_of
from mesh.config.values import Count, Duration, GroupPattern, Size, matching
from mesh.pool.common.settings import Acknowledge, Policy, ShareStart
from mesh.records.spans import ClusterName, TopicName

TOPIC = matching(
    r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", "a topic name: 1 to 249 letters, digits, dots, underscores, hyphens"
)
_PREFIX = matching(r"[A-Za-z0-9._-]{0,249}", "how a topic name begins: letters, digits, dots, underscores, hyphens")
_DEAD_LETTER_TOPIC = matching(
    r"(?!(\{topic\}|\.{1,2})$)([A-Za-z0-9._-]|\{topic\}){1,249}",
    "a topic name, in which {topic} stands for that of the record, and which is another one",
)
_GROUP_PREFIX = matching(r"[A-Za-z0-9._-]{0,100}", "at most 100 letters, digits, dots, underscores and hyphens")
BY_NAME, BY_PREFIX = "a topic by name", "topics by prefix"

GroupIdText = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class Start(Enum):
    """Where a group that has committed nothing upstream begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Isolation(Enum):
    """Which records of transactions are read upstream."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class SourceConfig(Model):
    """One upstream topic that feeds a topic of a pool."""

    cluster: ClusterName = Field(description="Name of an upstream cluster.")
    topic: Annotated[TopicName, TOPIC] = Field(description="Name of the topic there.")


class NamedTopic(Model):
    """A topic with sources of its own: their partitions are concatenated in this order."""

    name: Annotated[TopicName, TOPIC] = Field(description="What clients call the topic.")
    sources: tuple[SourceConfig, ...] = Field(alias="from", description="The upstream topics that feed it.")


class PrefixRuleConfig(Model):
    """All topics of one cluster whose names begin so, under their own names."""

    prefix: Annotated[str, _PREFIX] = Field(description="How the names of the topics begin; an empty one takes all.")
    cluster: ClusterName = Field(description="Name of the upstream cluster that has them.")


def _kind_of_rule(value: object) -> str | None:
    keys = keys_of(value)
    named, by_prefix = bool(keys & {"name", "from", "sources"}), "prefix" in keys
    return None if named == by_prefix else BY_PREFIX if by_prefix else BY_NAME


TopicRule = Annotated[
    Annotated[NamedTopic, Tag(BY_NAME)] | Annotated[PrefixRuleConfig, Tag(BY_PREFIX)],
    Discriminator(
        _kind_of_rule,
        custom_error_type="topic_rule",
        custom_error_message="{name, from: [{cluster, topic}]} or {prefix, cluster}",
    ),
]


class AcknowledgeRule(Model):
    group: GroupPattern = Field(description="Pattern of group ids, as in `groups`.")
    mode: Acknowledge = Field(
        description="What settles a record: the member's `commit`, or its next fetch (`receipt`)."
    )


class Fairness(Model):
    policy: Policy = Field(
        default=Policy.LEAST_LOADED, description="Which of several waiting members gets the next batch."
    )
    initial_window: Count = Field(default=500, description="Records a member may hold un-committed at first.")
    maximum_window: Annotated[Count, Field(le=1_000_000_000)] = Field(
        default=50_000_000, description="Records a member may hold un-committed at most."
    )


class Budgets(Model):
    partition: Size = Field(default=4 << 20, description="Backlog of one partition.")
    pool: Size = Field(default=64 << 20, description="Backlog of one pool.")
    replay: Size = Field(default=8 << 20, description="Bytes kept, per pool, of what was sent and not committed.")


class RedeliveryBackoff(Model):
    initial: Duration = Field(default=1.0, description="Rest before the second delivery.")
    multiplier: Annotated[float, Field(ge=1, le=100)] = Field(default=2.0, description="How the rest grows.")
    maximum: Duration = Field(default=60.0, description="Longest rest.")


class DeadLettersConfig(Model):
    """Records that are delivered in vain again and again are written to a topic of their cluster, and settled."""

    topic: Annotated[str, _DEAD_LETTER_TOPIC] = Field(description="Where they are written.")
    create: bool = Field(default=False, description="Whether to make that topic where it is not there.")
    limit: Annotated[Count, Field(le=1_000)] = Field(default=5, description="Deliveries in vain until a record is one.")


class SessionTimeout(Model):
    minimum: Duration = Field(default=6.0, description="Shortest session timeout that a member may ask for.")
    maximum: Duration = Field(default=1_800.0, description="Longest session timeout that a member may ask for.")


class ShareConfig(Model):
    """What share members (KIP-932) have, in Kafka's words and bounds."""

    auto_offset_reset: ShareStart = Field(
        default=ShareStart.LATEST, description="Where a group without commits upstream begins; as in `start`, or that."
    )
    record_lock_duration: Annotated[Duration, Field(ge=15, le=60)] = Field(
        default=30.0, description="How long a member has what it acquires."
    )
    delivery_count_limit: Annotated[Count, Field(ge=2, le=10)] = Field(
        default=5, description="How often a record is delivered."
    )
    partition_max_record_locks: Annotated[Count, Field(ge=100, le=100_000)] = Field(
        default=2_000, description="Records of one partition that are acquired at the same time."
    )
    renew_acknowledge: bool = Field(default=True, description="Whether members may renew their locks.")
    max_share_sessions: Count = Field(default=2_000, description="Share sessions at the same time.")


class PoolConfig(Model):
    """The target `pool`: each consumer group shares the records of all its sources."""

    topics: tuple[TopicRule, ...] = Field(description="What clients see, and where it comes from.")
    groups: tuple[GroupPattern, ...] = Field(description="Patterns of the group ids that are admitted.")
    max_pools: Count = Field(default=100, description="Group ids at the same time.")
    group_less: GroupIdText | None = Field(
        default="kafka-mesh", description="Group id of consumers without one; null refuses them."
    )
    upstream_group_prefix: Annotated[str, _GROUP_PREFIX] = Field(
        default="", description="Put before the group id upstream."
    )
    start: Start = Field(default=Start.EARLIEST, description="Where a group without commits upstream begins.")
    acknowledge: tuple[AcknowledgeRule, ...] = Field(
        default=(), description="Tried in order, before the built-in rule."
    )
    isolation: Isolation = Field(
        default=Isolation.READ_COMMITTED, description="Which records of transactions are read."
    )
    fairness: Fairness = Field(default=Fairness(), description="How records are shared.")
    budgets: Budgets = Field(default=Budgets(), description="How much is kept in memory.")
    join_delay: Annotated[Duration, Field(le=10)] = Field(
        default=0.2, description="After which a JoinGroup is answered."
    )
    fast_expiry: Duration = Field(
        default=3.0, description="How long a member lives on after its last connection closed."
    )
    lock_timeout: Duration = Field(
        default=300.0, description="How long a silent member keeps records it has not committed."
    )
    hold_timeout: Duration = Field(
        default=1_800.0,
        description="How long a member that fetches and commits nothing keeps what it holds while others wait.",
    )
    commit_timeout: Duration = Field(
        default=3.0, description="After which a commit is answered even if it is not stored."
    )
    dead_letters: DeadLettersConfig | None = Field(
        default=None, description="What becomes of records that kill their members; null delivers them for ever."
    )
    redelivery_backoff: RedeliveryBackoff | None = Field(
        default=None, description="How long what a member died with rests before it is delivered again."
    )
    metadata_limit: Annotated[Count, Field(ge=100, le=4_000)] = Field(
        default=4_000, description="Characters of acknowledgements in the metadata of each upstream commit."
    )
    session_timeout: SessionTimeout = Field(default=SessionTimeout(), description="Bounds of session timeouts.")
    max_members: Count = Field(default=10_000, description="Members of one pool at the same time.")
    share: ShareConfig = Field(default=ShareConfig(), description="What share members have.")

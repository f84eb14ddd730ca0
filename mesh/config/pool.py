"""The configuration of the target `pool`."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Field, PlainSerializer, StringConstraints, Tag
from pydantic_core import PydanticCustomError

from mesh.config.base import Model, keys_of
from mesh.config.values import Count, Duration, GroupPattern, Pattern, Share, Size, matching
from mesh.pool.common.settings import BY_DURATION, Acknowledge, ByDuration, Policy, ShareStart
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

Priority = Annotated[int, Field(ge=-100, le=100)]
GroupIdText = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class Start(Enum):
    """The position at which a group without upstream commits begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


class IsolationLevel(Enum):
    """The isolation level for reading upstream."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class SourceConfig(Model):
    """One upstream topic that feeds a topic of a pool."""

    cluster: ClusterName = Field(description="Name of an upstream cluster.")
    topic: Annotated[TopicName, TOPIC] = Field(description="Name of the topic there.")


class NamedTopic(Model):
    """A topic with named sources, whose partitions are concatenated in this order."""

    name: Annotated[TopicName, TOPIC] = Field(description="The name that clients use.")
    priority: Priority = Field(
        default=0, description="A member that asks for several topics gets those of a higher priority first."
    )
    sources: tuple[SourceConfig, ...] = Field(alias="from", description="The upstream topics that feed it.")


class PrefixRuleConfig(Model):
    """All topics of one cluster whose names begin with the prefix, under their own names."""

    prefix: Annotated[str, _PREFIX] = Field(description="The prefix of the topics' names; an empty one matches all.")
    cluster: ClusterName = Field(description="Name of the upstream cluster that has them.")
    priority: Priority = Field(
        default=0, description="A member that asks for several topics gets those of a higher priority first."
    )


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


class WeightConfig(Model):
    """A rule for members that get more or less than others, or come before them. The first rule that matches a member
    counts."""

    client_id: Pattern | None = Field(default=None, description="Pattern of client.id; none for any.")
    principal: Pattern | None = Field(default=None, description="Pattern of principals, such as User:batch-*.")
    weight: Annotated[float, Field(ge=0.001, le=1_000)] = Field(
        default=1.0, description="How much each of them gets, where others get 1."
    )
    priority: Priority = Field(default=0, description="Members of a higher priority come first.")


class LimitOf(Enum):
    """The scope of a limit."""

    GROUP = "group"
    MEMBER = "member"


class LimitConfig(Model):
    """A limit of all members that match it. If several limits match, all of them hold."""

    group: GroupPattern = Field(default="*", description="Pattern of group ids.")
    client_id: Pattern | None = Field(default=None, description="Pattern of client.id; none for any.")
    principal: Pattern | None = Field(default=None, description="Pattern of principals.")
    of: LimitOf = Field(
        default=LimitOf.GROUP, description="All matching members of a group together, or each `member`."
    )
    records: Count | None = Field(default=None, description="Records a second.")
    bytes: Size | None = Field(default=None, description="Bytes a second.")
    in_flight: Count | None = Field(default=None, description="Records that members hold and have not committed.")
    share: Share | None = Field(default=None, description="The part of the group's records.")


class Fairness(Model):
    policy: Policy = Field(
        default=Policy.LEAST_LOADED, description="Which of several waiting members gets the next batch."
    )
    initial_window: Count = Field(default=500, description="Records that a member may hold without a commit at first.")
    maximum_window: Annotated[Count, Field(le=1_000_000_000)] = Field(
        default=50_000_000, description="Records that a member may hold without a commit at most, beside other members."
    )
    weights: tuple[WeightConfig, ...] = Field(
        default=(), description="Members that get more or less than others, or come first."
    )


class Budgets(Model):
    partition: Size = Field(default=4 << 20, description="Backlog of one partition.")
    pool: Size = Field(default=64 << 20, description="Backlog of one pool.")
    replay: Size = Field(default=8 << 20, description="Bytes per pool of records that were sent and not committed.")


class RedeliveryBackoff(Model):
    initial: Duration = Field(default=1.0, description="Rest before the second delivery.")
    multiplier: Annotated[float, Field(ge=1, le=100)] = Field(default=2.0, description="How the rest grows.")
    maximum: Duration = Field(default=60.0, description="Longest rest.")


class DeadLettersConfig(Model):
    """The settings of dead letters: records that were delivered too often without a commit are written to a topic of
    their cluster, and settled."""

    topic: Annotated[str, _DEAD_LETTER_TOPIC] = Field(description="The topic for dead letters.")
    create: bool = Field(default=False, description="Whether to create that topic if it is missing.")
    limit: Annotated[Count, Field(le=1_000)] = Field(
        default=5, description="Deliveries without a commit until a record is a dead letter."
    )


class SessionTimeout(Model):
    minimum: Duration = Field(default=6.0, description="Shortest session timeout that a member may ask for.")
    maximum: Duration = Field(default=1_800.0, description="Longest session timeout that a member may ask for.")


def _parse_share_start(value: object) -> ShareStart | ByDuration:
    match value:
        case ShareStart() | ByDuration():
            return value
        case str() if value.startswith(BY_DURATION):
            with suppress(ValueError):
                return ByDuration.parse(value)
        case str() if value in {each.value for each in ShareStart}:
            return ShareStart(value)
        case _:
            pass
    raise PydanticCustomError("share_start", "latest, earliest, pool, or by_duration:PnDTnHnMnS")


ShareStartValue = Annotated[
    ShareStart | ByDuration,
    BeforeValidator(_parse_share_start, json_schema_input_type=str),
    PlainSerializer(lambda start: start.value, return_type=str),
]


class ShareConfig(Model):
    """The settings of share members (KIP-932), in Kafka's words and bounds."""

    auto_offset_reset: ShareStartValue = Field(
        default=ShareStart.LATEST,
        description="Where a group without commits upstream begins; `pool`: where `start` says.",
    )
    record_lock_duration: Annotated[Duration, Field(ge=1, le=3_600)] = Field(
        default=30.0, description="How long a member holds acquired records."
    )
    min_record_lock_duration: Annotated[Duration, Field(ge=1, le=30)] = Field(
        default=15.0, description="The shortest lock that a group may set."
    )
    max_record_lock_duration: Annotated[Duration, Field(ge=30, le=3_600)] = Field(
        default=60.0, description="The longest lock that a group may set."
    )
    delivery_count_limit: Annotated[Count, Field(ge=2, le=10)] = Field(
        default=5, description="How often the mesh delivers a record before it gives it up."
    )
    partition_max_record_locks: Annotated[Count, Field(ge=100, le=100_000)] = Field(
        default=2_000, description="Records of one partition that are acquired at the same time."
    )
    renew_acknowledge: bool = Field(default=True, description="Whether members may renew their locks.")
    mixed: bool = Field(default=True, description="Allows members of other kinds in the same group.")
    max_share_sessions: Count = Field(default=2_000, description="Share sessions at the same time.")


class PoolConfig(Model):
    """The target `pool`: each consumer group shares the records of all its sources."""

    topics: tuple[TopicRule, ...] = Field(description="The topics that clients see, and their sources.")
    groups: tuple[GroupPattern, ...] = Field(description="Patterns of the group ids that are admitted.")
    max_pools: Count = Field(default=100, description="Group ids at the same time.")
    group_less: GroupIdText | None = Field(
        default="kafka-mesh", description="Group id of consumers without one; null refuses them."
    )
    upstream_group_prefix: Annotated[str, _GROUP_PREFIX] = Field(
        default="", description="A prefix for the group id upstream."
    )
    start: Start = Field(default=Start.EARLIEST, description="Where a group without commits upstream begins.")
    acknowledge: tuple[AcknowledgeRule, ...] = Field(
        default=(), description="Rules, tried in order, before the built-in one."
    )
    isolation: IsolationLevel = Field(
        default=IsolationLevel.READ_COMMITTED, description="Which records of transactions are read."
    )
    fairness: Fairness = Field(default=Fairness(), description="How records are shared.")
    limits: tuple[LimitConfig, ...] = Field(default=(), description="Limits of groups and members.")
    budgets: Budgets = Field(default=Budgets(), description="Bounds of records in memory.")
    join_delay: Annotated[Duration, Field(le=10)] = Field(
        default=0.2, description="How long a JoinGroup waits for its answer."
    )
    fast_expiry: Duration = Field(default=3.0, description="How long a member stays after its last connection closed.")
    lock_timeout: Duration = Field(
        default=300.0, description="How long a silent member keeps records it has not committed."
    )
    hold_timeout: Duration = Field(
        default=1_800.0,
        description="How long a member that fetches but commits nothing keeps its records while others wait.",
    )
    commit_timeout: Duration = Field(
        default=3.0, description="The time after which the mesh answers a commit even if it is not stored."
    )
    dead_letters: DeadLettersConfig | None = Field(
        default=None,
        description="The topic for records that kill their members. null: such records are delivered for ever.",
    )
    redelivery_backoff: RedeliveryBackoff | None = Field(
        default=None, description="How long records that a member died with rest before they are delivered again."
    )
    metadata_limit: Annotated[Count, Field(ge=100, le=4_000)] = Field(
        default=4_000, description="Characters of acknowledgements in the metadata of each upstream commit."
    )
    session_timeout: SessionTimeout = Field(default=SessionTimeout(), description="Bounds of session timeouts.")
    max_members: Count = Field(default=10_000, description="Members of one pool at the same time.")
    share: ShareConfig = Field(default=ShareConfig(), description="Settings of share members.")

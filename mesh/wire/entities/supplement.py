"""The messages of Kafka 4.4 that kio 0.6.5 lacks: each as changes to an earlier version, or as a whole.

They follow clients/src/main/resources/common/message; tests compare them with the definitions in Kafka's own jar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeAlias

from mesh.wire.apis import ApiKey
from mesh.wire.entities.fields import NO_DEFAULT, Field
from mesh.wire.entities.kinds import Direction, EntityKind

Fields: TypeAlias = tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Later:
    """A version of a message, as changes to an earlier version.

    of: the earlier version. instead: the fields that replace the field at a path of names. after: the fields that are
    added after a path.
    """

    of: int
    instead: Mapping[str, Fields] = field(default_factory=dict)
    after: Mapping[str, Fields] = field(default_factory=dict)

    def applied(self, fields: Fields, path: str = "") -> Fields:
        """Returns the fields of the later version."""
        result: list[Field] = []
        for old in fields:
            place = f"{path}{old.name}"
            if place in self.instead:
                result += self.instead[place]
            else:
                result.append(replace(old, fields=self.applied(old.fields, f"{place}.")))
            result += self.after.get(place, ())
        return tuple(result)


def _struct(name: str, fields: Fields, *, is_array: bool = False, is_nullable: bool = False) -> Field:
    default = None if is_nullable else NO_DEFAULT
    return Field(name, "struct", is_array=is_array, is_nullable=is_nullable, fields=fields, default=default)


_ERROR_MESSAGE: Final = Field("error_message", "string", is_nullable=True, default=None)
_THROTTLE: Final = Field("throttle_time", "int32", EntityKind.NONE, is_time=True)
_ERROR_CODE: Final = Field("error_code", "int16")

_TOPOLOGY_NODE: Final = (
    Field("name", "string"),
    Field("node_type", "int8"),
    Field("source_topics", "string", EntityKind.TOPIC, is_array=True),
    Field("sink_topic", "string", EntityKind.TOPIC, is_nullable=True, default=None),
    Field("stores", "string", is_array=True),
    Field("successors", "string", is_array=True),
)
_TOPOLOGY_DESCRIPTION: Final = (
    _struct(
        "subtopologies",
        (Field("subtopology_id", "string"), _struct("nodes", _TOPOLOGY_NODE, is_array=True)),
        is_array=True,
    ),
    _struct("global_stores", (_struct("source", _TOPOLOGY_NODE), _struct("processor", _TOPOLOGY_NODE)), is_array=True),
)
_TOPIC_ID: Final = {"topics.name": (Field("topic_id", "uuid"),)}

SUPPLEMENT: Final[Mapping[tuple[ApiKey, int, Direction], Later | Fields]] = MappingProxyType(
    {
        # KIP-1242: the cluster and the node that the client expects.
        (ApiKey.API_VERSIONS, 5, Direction.REQUEST): Later(
            4,
            after={
                "client_software_version": (
                    Field("cluster_id", "string", is_nullable=True, default=None),
                    Field("node_id", "int32", EntityKind.NODE, default=-1),
                )
            },
        ),
        (ApiKey.API_VERSIONS, 5, Direction.RESPONSE): Later(4),
        # KIP-1319
        (ApiKey.TXN_OFFSET_COMMIT, 6, Direction.REQUEST): Later(5, instead=_TOPIC_ID),
        (ApiKey.TXN_OFFSET_COMMIT, 6, Direction.RESPONSE): Later(5, instead=_TOPIC_ID),
        # KIP-1331, like all following rows except the last two.
        (ApiKey.DELETE_GROUPS, 3, Direction.REQUEST): Later(2),
        (ApiKey.DELETE_GROUPS, 3, Direction.RESPONSE): Later(2, after={"results.error_code": (_ERROR_MESSAGE,)}),
        (ApiKey.STREAMS_GROUP_HEARTBEAT, 1, Direction.REQUEST): Later(0),
        (ApiKey.STREAMS_GROUP_HEARTBEAT, 1, Direction.RESPONSE): Later(
            0,
            instead={"acceptable_recovery_lag": ()},
            after={
                "task_offset_interval": (Field("acceptable_recovery_lag", "int64", default=-1),),
                "warmup_tasks": (Field("topology_description_required", "bool"),),
            },
        ),
        (ApiKey.STREAMS_GROUP_DESCRIBE, 1, Direction.REQUEST): Later(
            0, after={"include_authorized_operations": (Field("include_topology_description", "bool"),)}
        ),
        (ApiKey.STREAMS_GROUP_DESCRIBE, 1, Direction.RESPONSE): Later(
            0,
            after={
                "groups.authorized_operations": (
                    _struct("topology_description", _TOPOLOGY_DESCRIPTION, is_nullable=True),
                    Field("topology_description_status", "int8"),
                    Field("assignor_name", "string", is_nullable=True, default=None),
                )
            },
        ),
        (ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0, Direction.REQUEST): (
            Field("group_id", "string", EntityKind.GROUP),
            Field("member_id", "string"),
            Field("topology_epoch", "int32"),
            _struct("topology_description", _TOPOLOGY_DESCRIPTION),
        ),
        (ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0, Direction.RESPONSE): (
            _THROTTLE,
            _ERROR_CODE,
            _ERROR_MESSAGE,
        ),
        (ApiKey.UNREGISTER_CONTROLLER, 0, Direction.REQUEST): (Field("controller_id", "int32", EntityKind.NODE),),
        (ApiKey.UNREGISTER_CONTROLLER, 0, Direction.RESPONSE): (
            _THROTTLE,
            _ERROR_CODE,
            replace(_ERROR_MESSAGE, default=""),
        ),
    }
)

_NULL_BY_DEFAULT: Final = (
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, Direction.REQUEST, "topics"),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, Direction.REQUEST, "topic_partitions"),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, Direction.REQUEST, "active_tasks standby_tasks warmup_tasks client_tags"),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, Direction.REQUEST, "task_offsets task_end_offsets"),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, Direction.RESPONSE, "active_tasks standby_tasks warmup_tasks"),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, Direction.RESPONSE, "partitions_by_user_endpoint"),
)
NULL_BY_DEFAULT: Final = frozenset(
    (api_key, side, name) for api_key, side, names in _NULL_BY_DEFAULT for name in names.split()
)
"""Arrays that are null by default, for which kio has no default."""

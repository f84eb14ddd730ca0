"""Clusters with one group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from mesh.wire.apis import ApiKey
from mesh.wire.trees import Tree
from tests.runtime.entity_router.harness import LeafCluster, topic_id

GROUP: Final = "one"


class GroupCluster:
    """Answers about one group like a cluster of one broker. code: of Heartbeat and of each commit. state,
    protocol_type, described: of the group, and its members. stored: offsets by topic. retention: minutes."""

    def __init__(self, cluster: LeafCluster) -> None:
        self.cluster = cluster
        self.code = 0
        self.group_code = 0
        self.not_yet = 0
        """How often there is no coordinator yet."""
        self.heartbeat_code = 0
        """The error code of heartbeats of the consumer protocol."""
        self.state = "Empty"
        self.stored: dict[str | UUID, int] = {}
        self.protocol_type = ""
        self.described: list[Tree] = []
        self.others: list[Tree] = []
        """Other members at the time of a join."""
        self.retention = "10080"
        self.epoch = 1
        self.consumers: list[Tree] = []
        """Members, as ConsumerGroupDescribe and ShareGroupDescribe have them."""
        self.listed: list[Tree] = []
        cluster.answers = self._answer

    def seen(self, *api_keys: ApiKey) -> list[Tree]:
        """The requests of these APIs."""
        return [request for key, request in self.cluster.seen if key in api_keys]

    def _answer(self, api_key: ApiKey, version: int, request: Tree) -> Tree | None:
        by_api: dict[ApiKey, Callable[[int, Tree], Tree | None]] = {
            ApiKey.METADATA: lambda *_: None,
            ApiKey.FIND_COORDINATOR: self._coordinator,
            ApiKey.HEARTBEAT: lambda *_: {"error_code": self.code},
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.OFFSET_FETCH: self._fetch,
            ApiKey.DESCRIBE_GROUPS: lambda *_: {
                "groups": [
                    {
                        "group_id": GROUP,
                        "group_state": self.state,
                        "protocol_type": self.protocol_type,
                        "members": self.described,
                    }
                ]
            },
            ApiKey.DESCRIBE_CONFIGS: lambda *_: {
                "results": [{"configs": [{"name": "offsets.retention.minutes", "value": self.retention}]}]
            },
            ApiKey.JOIN_GROUP: lambda *_: {
                "error_code": self.code,
                "leader": "kept",
                "member_id": "kept",
                "members": [{"member_id": "kept"}, *self.others],
            },
            ApiKey.DELETE_GROUPS: lambda *_: {"results": [{"group_id": GROUP, "error_code": self.code}]},
            ApiKey.OFFSET_DELETE: self._delete,
            ApiKey.LEAVE_GROUP: lambda *_: {"error_code": 0},
            ApiKey.CONSUMER_GROUP_DESCRIBE: self._describe_consumers,
            ApiKey.SHARE_GROUP_DESCRIBE: self._describe_consumers,
            ApiKey.LIST_GROUPS: lambda *_: {"groups": self.listed},
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self._heartbeat,
            ApiKey.SHARE_GROUP_HEARTBEAT: self._heartbeat,
        }
        return by_api[api_key](version, request)

    def _describe_consumers(self, version: int, request: Tree) -> Tree:
        group = {
            "group_id": GROUP,
            "error_code": 0 if self.consumers else 69,
            "group_state": "Stable" if self.consumers else "Dead",
            "members": self.consumers,
        }
        return {"groups": [group]}

    def _coordinator(self, version: int, request: Tree) -> Tree:
        host, port = self.cluster.addresses[0]
        found = {"node_id": 0, "host": host, "port": port}
        if version < 4:
            if self.not_yet:
                self.not_yet -= 1
                return {"error_code": 15, "node_id": -1, "host": "", "port": -1}
            return found
        return {"coordinators": [{"key": each, **found} for each in request["coordinator_keys"]]}

    def _commit(self, version: int, request: Tree) -> Tree:
        if not self.code:
            for each in request["topics"]:
                self.stored[each.get("name") or each["topic_id"]] = each["partitions"][0]["committed_offset"]
        return {
            "topics": [
                each | {"partitions": [{"partition_index": 0, "error_code": self.code}]} for each in request["topics"]
            ]
        }

    def _heartbeat(self, version: int, request: Tree) -> Tree:
        names = request["subscribed_topic_names"]
        given = [{"topic_id": topic_id(name), "partitions": [0]} for name in names or ()]
        leaves = request["member_epoch"] < 0
        return {
            "error_code": self.code or self.heartbeat_code,
            "member_id": "m",
            "member_epoch": request["member_epoch"] if leaves else self.epoch,
            "heartbeat_interval_ms": 5_000,
            "assignment": None if names is None else {"topic_partitions": given},
        }

    def _delete(self, version: int, request: Tree) -> Tree:
        if self.code:
            return {"error_code": self.code, "topics": []}
        for each in request["topics"]:
            self.stored.pop(each["name"], None)
        return {
            "error_code": 0,
            "topics": [each | {"partitions": [{"partition_index": 0, "error_code": 0}]} for each in request["topics"]],
        }

    def _fetch(self, version: int, request: Tree) -> Tree:
        if version < 8:
            return self._of_group(request)
        return {"groups": [self._of_group(each) for each in request["groups"]]}

    def _of_group(self, asked: Tree) -> Tree:
        names = (
            [each for each in self.stored if isinstance(each, str)]
            if asked["topics"] is None
            else [each["name"] for each in asked["topics"]]
        )
        topics = [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": 0,
                        "committed_offset": self.stored.get(name, -1),
                        "committed_leader_epoch": -1,
                        "metadata": "",
                    }
                ],
            }
            for name in names
        ]
        return {"group_id": GROUP, "topics": topics, "error_code": self.group_code}

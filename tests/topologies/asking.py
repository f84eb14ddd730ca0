"""Requests about streams groups, as trees, to a broker or to its front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mesh.wire.apis import ApiKey, has_tagged_response_header, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.errors import ErrorCode
from mesh.wire.reader import INT16, INT32
from mesh.wire.trees import Tree, read_tree, write_tree
from tests.integration.processes import eventually
from tests.integration.raw import Endpoint, RawConnection
from tests.wire.entities import frame

CLIENT_ID = b"asking"
CORRELATION_ID = 7
EPOCH = 3
"""The topology epoch of every group here."""
TOPIC = "orders"


class Asking:
    """One client's connection. member: its id in every group. prefix: of every topic that it names."""

    def __init__(
        self, endpoint: str, member: str = "member-1", *, client_id: bytes = CLIENT_ID, prefix: str = ""
    ) -> None:
        self._connection = RawConnection(Endpoint.of(endpoint))
        self.member = member
        self.prefix = prefix
        self._client_id = client_id

    def close(self) -> None:
        self._connection.close()

    def ask(self, api_key: ApiKey, version: int, tree: Tree) -> Tree:
        """The body of the answer to a request."""
        return self.ask_together((api_key, version, tree))[0]

    def ask_together(self, *requests: tuple[ApiKey, int, Tree]) -> list[Tree]:
        """The bodies of the answers to several requests that are sent at once."""
        self._connection.tell(b"".join(frame(request_of(*each, self._client_id)) for each in requests))
        return [self._answer(api_key, version) for api_key, version, _ in requests]

    def _answer(self, api_key: ApiKey, version: int) -> Tree:
        answer = self._connection.answer()
        assert answer is not None, f"{api_key.name} v{version} closed the connection"
        assert INT32.unpack_from(answer)[0] == CORRELATION_ID
        body = INT32.size + has_tagged_response_header(api_key, version)
        return read_tree(api_key, version, Direction.RESPONSE, answer[body:])

    def versions(self) -> dict[ApiKey, tuple[int, int]]:
        tree = {"client_software_name": "asking", "client_software_version": "1"}
        listed = self.ask(ApiKey.API_VERSIONS, 3, tree)["api_keys"]
        return {ApiKey(each["api_key"]): (each["min_version"], each["max_version"]) for each in listed}

    def wait_for_coordinator(self) -> None:
        """Returns when the node coordinates groups."""
        asked: Tree = {"key_type": 0, "coordinator_keys": [self.prefix + TOPIC]}

        def is_ready() -> bool:
            self.ask(ApiKey.FIND_COORDINATOR, 4, asked)  # which creates its topic
            return bool(
                self.describe(f"{self.prefix}nobody's", version=0)["groups"][0]["error_code"]
                == ErrorCode.GROUP_ID_NOT_FOUND
            )

        eventually("a coordinator", is_ready, interval=0.1)

    def wait_for_store(self) -> None:
        """Returns when descriptions are kept; at once for a broker that keeps them."""
        group = f"{self.prefix}before-all-others"

        def is_ready() -> bool:
            self.join(group)
            return bool(self.push(group)["error_code"] == ErrorCode.NONE)

        eventually("descriptions", is_ready, interval=0.1)
        self.leave(group)
        self.delete(group)

    def join(self, group: str, version: int = 1, **more: Any) -> Tree:
        joining = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "topology": topology(prefix=self.prefix),
            "process_id": "p",
        }
        tasks: Tree = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "client_tags": []}
        return self.beat(group, version, **{**joining, **tasks, **more})

    def beat(self, group: str, version: int = 1, **more: Any) -> Tree:
        tree = {"group_id": group, "member_id": self.member, "rebalance_timeout_ms": -1, **more}
        return self.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, version, tree)

    def leave(self, group: str, version: int = 1) -> Tree:
        return self.beat(group, version, member_epoch=-1)

    def push(self, group: str, **more: Any) -> Tree:
        tree = {"group_id": group, "member_id": self.member, "topology_epoch": EPOCH, **more}
        tree.setdefault("topology_description", description(self.prefix))
        return self.ask(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0, tree)

    def join_classic(self, group: str) -> Tree:
        """Joins as a member of the classic protocol, with the member id that it gets."""
        tree = {"group_id": group, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": ""}
        protocol = {"name": "range", "metadata": b""}
        return self.ask(ApiKey.JOIN_GROUP, 3, {**tree, "protocol_type": "consumer", "protocols": [protocol]})

    def leave_classic(self, group: str, member: str) -> Tree:
        return self.ask(ApiKey.LEAVE_GROUP, 1, {"group_id": group, "member_id": member})

    def describe(self, *groups: str, version: int = 1, is_included: bool = True) -> Tree:
        tree = {"group_ids": list(groups), "include_topology_description": is_included}
        return self.ask(ApiKey.STREAMS_GROUP_DESCRIBE, version, tree)

    def delete(self, *groups: str, version: int = 3) -> Tree:
        return self.ask(ApiKey.DELETE_GROUPS, version, {"groups_names": list(groups)})


def request_of(api_key: ApiKey, version: int, tree: Tree, client_id: bytes = CLIENT_ID) -> bytes:
    """A request without its length."""
    body = write_tree(api_key, version, Direction.REQUEST, tree)
    head = INT16.pack(api_key) + INT16.pack(version) + INT32.pack(CORRELATION_ID) + INT16.pack(len(client_id))
    return head + client_id + (b"\0" if is_flexible(api_key, version) else b"") + body


def topology(epoch: int = EPOCH, topics: Sequence[str] = (TOPIC,), prefix: str = "") -> Tree:
    sources = [prefix + each for each in topics]
    return {"epoch": epoch, "subtopologies": [{"subtopology_id": "0", "source_topics": sources}]}


def node(name: str, node_type: int, **more: Any) -> Tree:
    return {"name": name, "node_type": node_type, **more}


def description(prefix: str = "") -> Tree:
    """A description with every kind of node, not in the order of their names."""
    nodes = [
        node("source", 1, source_topics=[prefix + TOPIC, f"{prefix}another"], successors=["count", "again"]),
        node("count", 2, stores=["z", "a"], successors=["sink"]),
        node("sink", 3, sink_topic=f"{prefix}out"),
        node("again", 3),
    ]
    source = node("g", 1, source_topics=[f"{prefix}t"], successors=["p"])
    store = {"source": source, "processor": node("p", 2, stores=["s"])}
    return {"subtopologies": [{"subtopology_id": "0", "nodes": nodes}], "global_stores": [store]}

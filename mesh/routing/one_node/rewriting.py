"""Rewrites brokers' answers so that clients see one node that leads all partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from mesh.routing.kit.translation import BROKER, BROKER_LOGGER, node_in
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

NODE, COORDINATOR = 1, 2
"""The node ids that clients see."""
NOBODY: Final = -1
_REPLICAS: Final = ("replica_nodes", "isr_nodes")
_ELIGIBLE: Final = ("eligible_leader_replicas", "last_known_elr")


@dataclass(frozen=True, slots=True)
class NodeEndpoint:
    """A node that clients see, and its address."""

    node: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class VisibleNodes:
    """The nodes that clients see instead of all brokers. coordinator: the node for groups and transactions. It equals
    `node`, unless it has an address of its own."""

    node: NodeEndpoint
    coordinator: NodeEndpoint

    @property
    def nodes(self) -> Sequence[NodeEndpoint]:
        return (self.node,) if self.node == self.coordinator else (self.node, self.coordinator)

    def rewritten(self, api_key: ApiKey, answer: Tree) -> Tree:
        """Rewrites an answer for clients. answer: that of a broker, or the joined answer of several brokers."""
        rewrite = _REWRITES.get(api_key)
        return answer if rewrite is None else rewrite(self, answer)

    def metadata(self, answer: Tree) -> Tree:
        brokers = [{"node_id": each.node, "host": each.host, "port": each.port} for each in self.nodes]
        topics = [_with(topic, "partitions", self._partition) for topic in answer["topics"]]
        return answer | {"brokers": brokers, "controller_id": self.node.node, "topics": topics}

    def topic_partitions(self, answer: Tree) -> Tree:
        return _with(answer, "topics", lambda topic: _with(topic, "partitions", self._partition))

    def cluster(self, answer: Tree) -> Tree:
        if answer["error_code"]:
            return answer
        brokers = [{"broker_id": each.node, "host": each.host, "port": each.port} for each in self.nodes]
        return answer | {"brokers": brokers, "controller_id": self.node.node}

    def coordinators(self, answer: Tree) -> Tree:
        """Rewrites the coordinators that a broker found; other fields stay the same."""
        if "coordinators" in answer:
            return _with(answer, "coordinators", self._coordinator)
        return self._coordinator(answer)

    def produced(self, answer: Tree) -> Tree:
        answer = _with(answer, "responses", lambda topic: _with(topic, "partition_responses", self.leader))
        return answer | {"node_endpoints": self.endpoints(answer)}

    def endpoints(self, answer: Tree) -> list[Tree]:
        """Returns the endpoints of new leaders in an answer: the one node, if the broker named any. Clients cannot
        reach brokers."""
        node = self.node
        return [{"node_id": node.node, "host": node.host, "port": node.port}] if answer.get("node_endpoints") else []

    def leader(self, partition: Tree) -> Tree:
        """Rewrites the current leader in a partition of Produce or Fetch, which a broker adds if it is not the leader
        (KIP-951)."""
        current = partition.get("current_leader")
        if current is None or current["leader_id"] < 0:
            return partition
        return partition | {"current_leader": current | {"leader_id": self.node.node}}

    def broker_configs(self, answer: Tree) -> Tree:
        return _with(answer, "results", self._broker_config)

    def _broker_config(self, result: Tree) -> Tree:
        is_broker = result["resource_type"] in (BROKER, BROKER_LOGGER)
        return result | {"resource_name": str(self.node.node)} if is_broker and result["resource_name"] else result

    def _coordinator(self, found: Tree) -> Tree:
        if found["error_code"] or found["node_id"] < 0:
            return found
        endpoint = self.coordinator
        return found | {"node_id": endpoint.node, "host": endpoint.host, "port": endpoint.port}

    def _partition(self, partition: Tree) -> Tree:
        has_leader = partition["leader_id"] >= 0
        rewritten: Tree = {**partition, "leader_id": self.node.node if has_leader else NOBODY}
        rewritten.update((key, [self.node.node]) for key in _REPLICAS if key in partition)
        rewritten.update((key, []) for key in _ELIGIBLE if key in partition)
        if not has_leader:
            rewritten["isr_nodes"] = []
        if "offline_replicas" in partition:
            rewritten["offline_replicas"] = [] if has_leader else [self.node.node]
        if has_leader and partition["error_code"] == ErrorCode.REPLICA_NOT_AVAILABLE:
            rewritten["error_code"] = int(ErrorCode.NONE)  # v0 reports replicas on brokers that clients do not see
        return rewritten


def with_broker_id(api_key: ApiKey, request: Tree, broker: int) -> Tree:
    """Rewrites a request that may name the node for a broker: it names the broker then."""
    if api_key is not ApiKey.DESCRIBE_CONFIGS:
        return request
    return _with(request, "resources", lambda each: _of_broker(each, broker))


def _of_broker(resource: Tree, broker: int) -> Tree:
    is_node = resource["resource_type"] in (BROKER, BROKER_LOGGER) and node_in(resource["resource_name"]) is not None
    return resource | {"resource_name": str(broker)} if is_node else resource


def refusal(api_key: ApiKey, request: Tree) -> tuple[ErrorCode, str] | None:
    """Returns the reason to refuse a request that names nodes; None if it is not refused."""
    match api_key:
        case ApiKey.CREATE_TOPICS | ApiKey.CREATE_PARTITIONS if any(
            topic["assignments"] for topic in request["topics"]
        ):
            text = "replicas cannot be assigned to brokers here: clients see one node in place of all brokers"
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
        case ApiKey.ALTER_CONFIGS | ApiKey.INCREMENTAL_ALTER_CONFIGS if any(map(_is_node, request["resources"])):
            text = "no broker can be configured here by its id: clients see one node in place of all brokers"
            return ErrorCode.INVALID_REQUEST, text
        case _:
            return None


def log_dirs_of(broker: int, answer: Tree) -> Tree:
    """Rewrites the answer of one broker to DescribeLogDirs: each path gets the broker's id, so that no two brokers have
    equal paths."""
    return _with(answer, "results", lambda each: each | {"log_dir": f"broker-{broker}:{each['log_dir']}"})


def _is_node(resource: Mapping[str, Any]) -> bool:
    return resource["resource_type"] in (BROKER, BROKER_LOGGER) and bool(resource["resource_name"])


def _with(tree: Tree, name: str, change: Callable[[Tree], Tree]) -> Tree:
    return tree if tree.get(name) is None else {**tree, name: [change(each) for each in tree[name]]}


_REWRITES: Final[Mapping[ApiKey, Callable[[VisibleNodes, Tree], Tree]]] = MappingProxyType(
    {
        ApiKey.METADATA: VisibleNodes.metadata,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: VisibleNodes.topic_partitions,
        ApiKey.DESCRIBE_CLUSTER: VisibleNodes.cluster,
        ApiKey.FIND_COORDINATOR: VisibleNodes.coordinators,
        ApiKey.PRODUCE: VisibleNodes.produced,
        ApiKey.DESCRIBE_CONFIGS: VisibleNodes.broker_configs,
    }
)

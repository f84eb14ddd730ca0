"""The cluster itself: its nodes, its disks, its features."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.relay.sides import ASKED, OTHER, Side

_BROKERS, _CONTROLLERS = 1, 2
_UPGRADE, _SAFE_DOWNGRADE = 1, 2


def _api_versions(side: Side, version: int) -> None:
    for at in (ASKED, OTHER):
        side.ask("api_versions", version, at, client_software_name="kafka-mesh", client_software_version="1.0")
    side.ask("api_versions", version, client_software_name="in/valid", client_software_version="1.0")


def _describe_cluster(side: Side, version: int) -> None:
    for at in (ASKED, OTHER):
        for endpoint_type in (_BROKERS, _CONTROLLERS, 7):
            side.ask("describe_cluster", version, at, endpoint_type=endpoint_type, include_fenced_brokers=at == OTHER)
    side.ask("describe_cluster", version, endpoint_type=_BROKERS, include_cluster_authorized_operations=True)


def _describe_quorum(side: Side, version: int) -> None:
    for topic, partition in (("__cluster_metadata", 0), ("__cluster_metadata", 7), (side.topic, 0)):
        named = {"topic_name": topic, "partitions": [{"partition_index": partition}]}
        side.ask("describe_quorum", version, topics=[named])


def _describe_log_dirs(side: Side, version: int) -> None:
    shared = {"topic": side.shared.topic, "partitions": [0, 1, 99]}
    for topics in ([shared], [{"topic": "nobody-knows-it", "partitions": [0]}], []):
        side.ask("describe_log_dirs", version, topics=topics)
    side.ask("describe_log_dirs", version, OTHER, topics=[shared])


def _alter_replica_log_dirs(side: Side, version: int) -> None:
    for path in ("/no/such/folder", "relative", ""):
        topics = [{"name": side.topic, "partitions": [0, 99]}]
        side.ask("alter_replica_log_dirs", version, dirs=[{"path": path, "topics": topics}])


def _update_features(side: Side, version: int) -> None:
    """Only validates: it changes nothing."""

    def ask(feature: str, level: int, upgrade_type: int = _UPGRADE) -> None:
        update = {"feature": feature, "max_version_level": level, "upgrade_type": upgrade_type}
        side.ask("update_features", version, feature_updates=[update], timeout=10_000, validate_only=True)

    if version >= 1:
        ask("group.version", 1)
        ask("metadata.version", 99)
        ask("metadata.version", 1, _SAFE_DOWNGRADE)
    side.ask("update_features", version, feature_updates=[{"feature": "no.such.feature", "max_version_level": 1}])


def _quorum_of_one(side: Side, api: str, version: int, **given: Any) -> None:
    for cluster_id in (None, side.shared.cluster_id, "another"):
        voter = {"cluster_id": cluster_id, "voter_id": 77, "voter_directory_id": UUID(int=4711)}
        side.ask(api, version, **voter, **given)


def _add_raft_voter(side: Side, version: int) -> None:
    listeners = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 9}]
    _quorum_of_one(side, "add_raft_voter", version, timeout=1_000, listeners=listeners, ack_when_committed=True)


def _remove_raft_voter(side: Side, version: int) -> None:
    _quorum_of_one(side, "remove_raft_voter", version)


def _unregister_broker(side: Side, version: int) -> None:
    for node in (77, -1):
        side.ask("unregister_broker", version, broker_id=node)


SCRIPTS = {
    "api_versions": _api_versions,
    "describe_cluster": _describe_cluster,
    "describe_quorum": _describe_quorum,
    "describe_log_dirs": _describe_log_dirs,
    "alter_replica_log_dirs": _alter_replica_log_dirs,
    "update_features": _update_features,
    "add_raft_voter": _add_raft_voter,
    "remove_raft_voter": _remove_raft_voter,
    "unregister_broker": _unregister_broker,
}

"""Fields of answers that differ from one request to the next on every side.

All other fields must be equal to the byte. Each field of VOLATILE differed between two requests to the broker itself,
in every run: a test fails for a field that did not. Fields of MAY_DIFFER do so only sometimes, for the reason beside
them.
"""

from __future__ import annotations

from collections.abc import Mapping

_MEMBER = "a group's coordinator names the member"
_PRODUCER = "a coordinator gives it away once"
_TOPIC = "of a topic that was made for the question, or would have been"
_CONTROLLER = "any broker: clients are not to talk to the controller itself"
_FETCHED = "when a replica of the cluster's metadata was seen last"
_HASHED = "the order is that of a hash table, or by intention none"

VOLATILE: Mapping[str, Mapping[str, str]] = {
    "fetch": {"session_id": "random"},
    "metadata": {"controller_id": _CONTROLLER},
    "describe_cluster": {"controller_id": _CONTROLLER},
    "join_group": {"leader": _MEMBER, "member_id": _MEMBER, "members.member_id": _MEMBER},
    "leave_group": {"members.member_id": _MEMBER},
    "describe_groups": {"groups.members.member_id": _MEMBER},
    "consumer_group_heartbeat": {"member_id": _MEMBER},
    "create_topics": {"topics.topic_id": _TOPIC},
    "delete_topics": {"responses.topic_id": _TOPIC},
    "init_producer_id": {"producer_id": _PRODUCER},
    "end_txn": {"producer_id": _PRODUCER},
    "describe_producers": {"topics.partitions.active_producers.producer_id": _PRODUCER},
    "describe_transactions": {
        "transaction_states.producer_id": _PRODUCER,
        "transaction_states.transaction_start_time": "now",
    },
    "describe_quorum": {
        "topics.partitions.current_voters.last_fetch_timestamp": _FETCHED,
        "topics.partitions.current_voters.last_caught_up_timestamp": _FETCHED,
    },
}
"""By API and path of the field: its meaning."""

MAY_DIFFER: Mapping[str, Mapping[str, str]] = {
    "describe_log_dirs": {"results.usable_bytes": "what else is written on the machine's disk"},
    "describe_quorum": {
        "topics.partitions.high_watermark": "grows twice a second",
        "topics.partitions.current_voters.log_end_offset": "grows twice a second",
        "topics.partitions.observers.log_end_offset": "grows twice a second",
        "topics.partitions.observers.last_fetch_timestamp": "a replica asks twice a second",
        "topics.partitions.observers.last_caught_up_timestamp": "a replica asks twice a second",
    },
    "api_versions": {"finalized_features_epoch": "grows twice a second"},
}
"""The same, with the reason why it is sometimes equal."""

UNORDERED: Mapping[str, Mapping[str, str]] = {
    "delete_topics": {"responses": _HASHED},
    "txn_offset_commit": {"topics.partitions": _HASHED},
    "add_partitions_to_txn": {
        "results_by_topic_v3_and_below.results_by_partition": _HASHED,
        "results_by_transaction.topic_results.results_by_partition": _HASHED,
    },
    "describe_acls": {"resources": _HASHED},
    "alter_replica_log_dirs": {"results.partitions": _HASHED},
    "describe_user_scram_credentials": {"results": _HASHED},
    "alter_user_scram_credentials": {"results": _HASHED},
}
"""Arrays that are compared as sets, by API and path."""

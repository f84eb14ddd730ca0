"""Names without a use here, and the reason why each of them stays: `vulture` reads this in `make lint`.

An unused name that is not listed here fails there, and so does code that only its tests use. Decorators whose functions
others call are in `pyproject.toml`.
"""

from __future__ import annotations

from typing import Final


class _Names:
    """Any attribute is its own name."""

    def __getattr__(self, name: str) -> str:
        return name


_ = _Names()
NAMES: Final = (
    # Words of users and brokers that are only looked up by their value.
    _.UNSTABLE_OFFSET_COMMIT,  # error codes of brokers, named in messages to people
    _.THROTTLING_QUOTA_EXCEEDED,
    # References that prevent garbage collection.
    _._value_,  # mesh/tasks.py: the value of a member of an Enum
    # Used by tests of the code.
    _.__signature__,  # tests/runtime/relay/loops.py: pytest reads it
    _.NAMES,  # of this file
    _.VOCABULARY,  # tests/telemetry/test_logs.py: the keys of log entries, explained
    _.is_shared,  # tests/benchmarks/test_growth.py
    # Authors of routers call it in their tests.
    _.problems_of,
    # Authors of routers by request call it.
    _.LEAF_BITS,
    _.node_for_id,
    # A field of an answer to a lease holder, who reads it.
    _.active,
    # Fields of Kafka's messages, which make them part of the bytes.
    _.allow_auto_topic_creation,
    _.api_keys,
    _.config_resources,
    _.config_source,
    _.config_type,
    _.is_sensitive,
    _.read_only,
    _.assignment_epoch,
    _.assignor_name,
    _.batch_index,
    _.batch_index_error_message,
    _.broker_id,
    _.committed_leader_epoch,
    _.committed_metadata,
    _.controller_id,
    _.current_leader_epoch,
    _.finalized_features,
    _.finalized_features_epoch,
    _.group_epoch,
    _.heartbeat_interval_ms,
    _.include_authorized_operations,
    _.include_cluster_authorized_operations,
    _.is_internal,
    _.isr_nodes,
    _.leader_id,
    _.max_version,
    _.max_version_level,
    _.member_assignment,
    _.member_metadata,
    _.member_type,
    _.min_version,
    _.min_version_level,
    _.offline_replicas,
    _.partition_responses,
    _.protocol_data,
    _.replica_nodes,
    _.session_lifetime_ms,
    _.skip_assignment,
    _.supported_features,
    _.target_assignment,
    _.timeout_ms,
    # asyncio calls them on a Protocol.
    _.eof_received,
    _.sizehint,
    # pydantic looks for them on a model.
    _.model_config,
    _.model_post_init,
    # uvicorn calls and reads them on its server.
    _.capture_signals,
    _.should_exit,
    # Spark calls them on a data source.
    _.streamReader,
    _.initialOffset,
    _.prepareForTriggerAvailableNow,
    _.getDefaultReadLimit,
    _.latestOffset,
    _.reportLatestOffset,
    # An argument of a function of cramjam.
    _.input,
    # pytest and its plug-ins look for them, and hypothesis calls the last one on a state machine.
    _.pytestmark,
    _.__context__,
    _.pytest_collection,
    _.pytest_configure,
    _.pytest_configure_node,
    _.pytest_unconfigure,
    _.pytest_collection_modifyitems,
    _.pytest_ignore_collect,
    _.pytest_runtest_makereport,
    _.pytest_runtest_teardown,
    _.pytest_runtest_logreport,
    _.pytest_collectreport,
    _.pytest_terminal_summary,
    _.pytest_xdist_make_scheduler,
    _._split_scope,
    _.teardown,
    # http.server calls them on a handler.
    _.do_DELETE,
    _.do_GET,
    _.do_POST,
    _.redirect_request,
    _.do_PUT,
    _.log_message,
    # Clients call them on a listener for rebalances.
    _.on_partitions_assigned,
    _.on_partitions_revoked,
    # Read by their owner: a traced frame, a logger, the options of a browser or of RE2.
    _.f_trace_lines,
    _.f_trace_opcodes,
    _.disabled,
    _.binary_location,
    _.log_errors,
    _.max_mem,
    # For tests of authors of routers.
    _.FakeContext,
    # Called by pydantic.
    _._only_what_belongs_to_it,
    _._login_only_where_it_is,
    _._without_empty,
    # tests/wire/test_schema.py: fields of messages that are wrong on purpose.
    _.grop_instance_id,
    _.nullable,
    _.nullable_array,
)

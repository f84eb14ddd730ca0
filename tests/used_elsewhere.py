"""Names that nothing here uses, and why each of them stays all the same: `vulture` reads this in `make lint`.

What nobody uses and is not listed here fails there, also what only tests use of the code that they test. Decorators
whose functions others call are in `pyproject.toml`.
"""

from __future__ import annotations

from typing import Final


class _Names:
    """Any attribute is its own name."""

    def __getattr__(self, name: str) -> str:
        return name


_ = _Names()
NAMES: Final = (
    # Words of users, and of brokers, that are only ever looked up by their value.
    _.UNSTABLE_OFFSET_COMMIT,  # error codes of brokers, which are named in messages to people
    _.THROTTLING_QUOTA_EXCEEDED,
    # Kept so that something is not collected as garbage while it is at work.
    _._connecting,  # a task of benchmarks/relay.py
    # What tests hold the code to.
    _.__signature__,  # tests/runtime/relay/loops.py: pytest reads it
    _.NAMES,  # of this file
    _.VOCABULARY,  # tests/telemetry/test_logs.py: the keys of log entries, explained
    _.is_shared,  # tests/benchmarks/test_growth.py
    # People who write routers call it in their tests.
    _.problems_of,
    # People who write routers that answer each request call it.
    _.LEAF_BITS,
    _.node_for_id,
    # A field of an answer to a holder of leases, who reads it.
    _.active,
    # Fields of Kafka's messages: that a class has them makes them part of the bytes, whether anybody reads them.
    _.allow_auto_topic_creation,
    _.api_keys,
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
    _.connection_lost,
    _.eof_received,
    _.sizehint,
    # pydantic looks for them on a model.
    _.model_config,
    _.model_post_init,
    # uvicorn calls it on its server.
    _.capture_signals,
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
    _.pytest_configure,
    _.pytest_collection_modifyitems,
    _.pytest_runtest_makereport,
    _.pytest_runtest_logreport,
    _.pytest_collectreport,
    _.pytest_sessionfinish,
    _.pytest_terminal_summary,
    _.pytest_xdist_make_scheduler,
    _._split_scope,
    _.exitstatus,
    _.teardown,
    # http.server calls them on a handler.
    _.do_DELETE,
    _.do_GET,
    _.do_POST,
    _.do_PUT,
    _.log_message,
    # Clients call them on a listener for rebalances.
    _.on_partitions_assigned,
    _.on_partitions_revoked,
    # Read by what they are set on: a frame that is traced, a logger, the options of a browser or of RE2.
    _.f_trace_lines,
    _.f_trace_opcodes,
    _.disabled,
    _.binary_location,
    _.log_errors,
    _.max_mem,
    # For the tests of people who write routers.
    _.FakeContext,
    # Called by pydantic.
    _._only_what_belongs_to_it,
    _._without_empty,
    # tests/wire/test_schema.py: fields of messages that are wrong on purpose.
    _.grop_instance_id,
    _.nullable,
    _.nullable_array,
)

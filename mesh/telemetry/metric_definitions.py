"""The definitions of metrics whose values are read at the time of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric whose samples are collected at the time of a scrape: a gauge, or a counter if its name ends in
    `_total`."""

    name: str
    help: str
    labels: tuple[str, ...]

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")


CONNECTIONS: Final = MetricDefinition(
    "kafka_mesh_connections", "Client connections that are open.", ("virtual_cluster",)
)
EVENT_LOOP_TASKS: Final = MetricDefinition("kafka_mesh_event_loop_tasks", "Tasks of the event loop.", ())
UNREAD_BYTES: Final = MetricDefinition(
    "kafka_mesh_unread_bytes", "Bytes of answers that wait for clients to read them.", ("virtual_cluster",)
)
RELAY_LEGS: Final = MetricDefinition(
    "kafka_mesh_relay_legs", "Connections to a node of a relay, each for one client.", ("virtual_cluster", "node")
)
RELAY_REQUESTS: Final = MetricDefinition(
    "kafka_mesh_relay_requests_total", "Requests that passed and were answered.", ("virtual_cluster", "node", "api")
)
RELAY_REQUEST_SECONDS: Final = MetricDefinition(
    "kafka_mesh_relay_request_seconds_total",
    "Time from passing a request on until its answer had passed.",
    ("virtual_cluster", "node", "api"),
)
RELAY_REQUEST_BYTES: Final = MetricDefinition(
    "kafka_mesh_relay_request_bytes_total", "Bytes of requests that were answered.", ("virtual_cluster", "node", "api")
)
RELAY_RESPONSE_BYTES: Final = MetricDefinition(
    "kafka_mesh_relay_response_bytes_total", "Bytes of answers that passed.", ("virtual_cluster", "node", "api")
)
RELAY_ERRORS: Final = MetricDefinition(
    "kafka_mesh_relay_errors_total",
    "Answers that passed with an error: their own, or that of the first of their parts.",
    ("virtual_cluster", "node", "api", "error"),
)
RELAY_LEGS_LOST: Final = MetricDefinition(
    "kafka_mesh_relay_legs_lost_total",
    "Connections to a node that could not be made, or ended before their client left.",
    ("virtual_cluster", "node", "reason"),
)
INTERCEPTOR_RECORDS: Final = MetricDefinition(
    "kafka_mesh_interceptor_records_total",
    "Records that an interceptor saw, by outcome.",
    ("virtual_cluster", "interceptor", "topic", "outcome"),
)
INTERCEPTOR_SECONDS: Final = MetricDefinition(
    "kafka_mesh_interceptor_seconds_total",
    "Time spent in an interceptor, in any process.",
    ("virtual_cluster", "interceptor", "topic"),
)
INTERCEPTOR_TIMEOUTS: Final = MetricDefinition(
    "kafka_mesh_interceptor_timeouts_total",
    "Attempts of requests that took too long, by the interceptors that saw them.",
    ("virtual_cluster", "interceptor"),
)
INTERCEPTOR_UNSEQUENCED: Final = MetricDefinition(
    "kafka_mesh_interceptor_unsequenced_total",
    "Batches of producers refused because the records dropped before them are unknown.",
    ("virtual_cluster", "reason"),
)
INTERCEPTOR_PRODUCERS: Final = MetricDefinition(
    "kafka_mesh_interceptor_producers",
    "Producers of a partition whose sequences the mesh remembers because interceptors may drop their records.",
    ("virtual_cluster",),
)
INTERCEPTOR_PRODUCERS_FORGOTTEN: Final = MetricDefinition(
    "kafka_mesh_interceptor_producers_forgotten_total",
    "Producers of a partition whose sequences the mesh forgot for lack of room.",
    ("virtual_cluster",),
)
INTERCEPTOR_WORKERS: Final = MetricDefinition(
    "kafka_mesh_interceptor_workers", "Processes in which interceptors run.", ("virtual_cluster",)
)
INTERCEPTOR_WORKERS_LOST: Final = MetricDefinition(
    "kafka_mesh_interceptor_workers_lost_total",
    "Processes that ended, or were killed, with work in their hands.",
    ("virtual_cluster",),
)
TOPOLOGY_SET_SUCCESS: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_set_success_total",
    "Topology descriptions that a plugin stored.",
    ("virtual_cluster",),
)
TOPOLOGY_SET_ERROR: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_set_error_total",
    "Topology descriptions that a plugin failed to store.",
    ("virtual_cluster",),
)
TOPOLOGY_GET_SUCCESS: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_get_success_total",
    "Topology descriptions that a plugin returned.",
    ("virtual_cluster",),
)
TOPOLOGY_GET_ERROR: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_get_error_total",
    "Topology descriptions that a plugin failed to return.",
    ("virtual_cluster",),
)
TOPOLOGY_DELETE_SUCCESS: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_delete_success_total",
    "Topology descriptions that a plugin deleted.",
    ("virtual_cluster",),
)
TOPOLOGY_DELETE_ERROR: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_delete_error_total",
    "Topology descriptions that a plugin failed to delete.",
    ("virtual_cluster",),
)
TOPOLOGY_CLEANUP_CYCLES: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_cleanup_cycle_total",
    "Searches for groups that are gone and had a topology description.",
    ("virtual_cluster",),
)
TOPOLOGY_CLEANUP_ELIGIBLE: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_cleanup_eligible",
    "Groups that the last such search found.",
    ("virtual_cluster",),
)
ROUTE_REQUESTS: Final = MetricDefinition(
    "kafka_mesh_route_requests_total",
    "Requests that a cluster behind a router answered: those that passed, and its parts of those that were divided.",
    ("virtual_cluster", "route", "api"),
)
ROUTE_REQUEST_SECONDS: Final = MetricDefinition(
    "kafka_mesh_route_request_seconds_total",
    "Time from sending such a request to its answer.",
    ("virtual_cluster", "route", "api"),
)
ROUTE_ERRORS: Final = MetricDefinition(
    "kafka_mesh_route_errors_total",
    "Answers of a cluster behind a router with an error: their own, or that of the first of their parts.",
    ("virtual_cluster", "route", "api", "error"),
)
ROUTE_UNANSWERED: Final = MetricDefinition(
    "kafka_mesh_route_unanswered_total",
    "Parts of divided requests that a cluster behind a router did not answer, or not in time.",
    ("virtual_cluster", "route", "api", "reason"),
)
POOLS: Final = MetricDefinition("kafka_mesh_pools", "Pools, one for each group with members.", ("virtual_cluster",))
MEMBERS: Final = MetricDefinition("kafka_mesh_members", "Members of a group.", ("virtual_cluster", "group"))
REQUESTS_IN_WORK: Final = MetricDefinition(
    "kafka_mesh_requests_in_work", "Requests of any kind without an answer yet.", ("virtual_cluster",)
)
PARKED_FETCHES: Final = MetricDefinition(
    "kafka_mesh_parked_fetches", "Fetch requests that are not answered yet.", ("virtual_cluster", "group")
)
WAITING_FETCHES: Final = MetricDefinition(
    "kafka_mesh_waiting_fetches",
    "Parked Fetch requests that may take a batch now, of some partition at least.",
    ("virtual_cluster", "group"),
)
BACKLOG_RECORDS: Final = MetricDefinition(
    "kafka_mesh_backlog_records",
    "Offsets that wait for a Fetch, also those without a record.",
    ("virtual_cluster", "group", "topic"),
)
BACKLOG_BYTES: Final = MetricDefinition(
    "kafka_mesh_backlog_bytes", "Bytes of records that wait for a Fetch.", ("virtual_cluster", "group", "topic")
)
BUFFERED_BYTES: Final = MetricDefinition(
    "kafka_mesh_buffered_bytes",
    "Bytes of records in memory: backlog, collected, and kept to be sent again.",
    ("virtual_cluster", "group"),
)
IN_FLIGHT_RECORDS: Final = MetricDefinition(
    "kafka_mesh_in_flight_records",
    "Offsets a member was sent and has not committed, also those without a record.",
    ("virtual_cluster", "group", "member", "client_id"),
)
COMMIT_HELD_SECONDS: Final = MetricDefinition(
    "kafka_mesh_commit_held_seconds",
    "How long a member has held the record for which the committed offset of a partition waits, the longest of all "
    "partitions; absent for members for which none waits.",
    ("virtual_cluster", "group", "member", "client_id"),
)
UPSTREAM_LAG: Final = MetricDefinition(
    "kafka_mesh_upstream_lag_records",
    "Offsets between what a group has committed upstream and the end of the partition, also those without a record.",
    ("virtual_cluster", "group", "cluster", "topic", "partition"),
)
UNOPENED_PARTITIONS: Final = MetricDefinition(
    "kafka_mesh_unopened_partitions",
    "Assigned upstream partitions that cannot be read: they have no leader, or the group may not read them.",
    ("virtual_cluster", "group", "cluster"),
)
REPLAY_OFFSETS_LEFT: Final = MetricDefinition(
    "kafka_mesh_replay_offsets_left",
    "Offsets of replays that members have not acknowledged again yet.",
    ("virtual_cluster", "group"),
)
MOVE_RECORDS_LEFT: Final = MetricDefinition(
    "kafka_mesh_move_records_left",
    "Records of a topic that is moved which the other cluster does not have yet.",
    ("virtual_cluster", "topic"),
)
WAITING_COMMITS: Final = MetricDefinition(
    "kafka_mesh_waiting_commits",
    "Commits of members that wait until they are stored upstream.",
    ("virtual_cluster", "group"),
)
MEMBERS_NEVER_COMMITTED: Final = MetricDefinition(
    "kafka_mesh_members_never_committed",
    "Members at their cap that have never committed, although they got records 15 s ago or more.",
    ("virtual_cluster", "group"),
)
UPSTREAM_UP: Final = MetricDefinition(
    "kafka_mesh_upstream_up", "Whether an upstream cluster can be used.", ("cluster",)
)
UPSTREAM_PROBLEM_SECONDS: Final = MetricDefinition(
    "kafka_mesh_upstream_problem_seconds",
    "How long an upstream cluster has had a problem; absent without one.",
    ("cluster", "problem"),
)
CONFIG_INFO: Final = MetricDefinition(
    "kafka_mesh_config_info", "1 for the running configuration; its hash leaves out secrets.", ("hash",)
)
CONFIG_RELOAD_FAILED: Final = MetricDefinition(
    "kafka_mesh_config_reload_failed",
    "1 if the last reload was refused; the previous configuration stays in use.",
    (),
)
CONFIG_RELOADED_SECONDS: Final = MetricDefinition(
    "kafka_mesh_config_reloaded_timestamp_seconds", "Unix time at which the running configuration was read.", ()
)
CERTIFICATE_EXPIRY: Final = MetricDefinition(
    "kafka_mesh_certificate_expiry_timestamp_seconds",
    "Unix time at which a certificate ends that the mesh shows to clients or brokers.",
    ("virtual_cluster", "listener", "cluster", "path"),
)
CERTIFICATE_ENDS_SOON: Final = MetricDefinition(
    "kafka_mesh_certificate_ends_soon",
    "1 in the last tenth of the life of a certificate, at most seven days, if no newer one was read; else 0.",
    ("virtual_cluster", "listener", "cluster", "path"),
)
UPSTREAM_CLIENT_FAILURES: Final = MetricDefinition(
    "kafka_mesh_upstream_client_failures_total",
    "Attempts to make a client of librdkafka that failed; an earlier client stays in use.",
    ("client",),
)
WORKER_UP: Final = MetricDefinition("kafka_mesh_worker_up", "1 while a worker answers.", ("worker",))
WORKER_RESTARTS: Final = MetricDefinition(
    "kafka_mesh_worker_restarts_total", "Times a worker was started again.", ("worker",)
)

FAMILIES: Final = (
    CONNECTIONS,
    EVENT_LOOP_TASKS,
    RELAY_ERRORS,
    RELAY_LEGS,
    RELAY_LEGS_LOST,
    INTERCEPTOR_PRODUCERS,
    INTERCEPTOR_PRODUCERS_FORGOTTEN,
    INTERCEPTOR_RECORDS,
    INTERCEPTOR_SECONDS,
    INTERCEPTOR_TIMEOUTS,
    INTERCEPTOR_UNSEQUENCED,
    INTERCEPTOR_WORKERS,
    INTERCEPTOR_WORKERS_LOST,
    RELAY_REQUESTS,
    RELAY_REQUEST_SECONDS,
    RELAY_REQUEST_BYTES,
    RELAY_RESPONSE_BYTES,
    ROUTE_ERRORS,
    TOPOLOGY_SET_SUCCESS,
    TOPOLOGY_SET_ERROR,
    TOPOLOGY_GET_SUCCESS,
    TOPOLOGY_GET_ERROR,
    TOPOLOGY_DELETE_SUCCESS,
    TOPOLOGY_DELETE_ERROR,
    TOPOLOGY_CLEANUP_CYCLES,
    TOPOLOGY_CLEANUP_ELIGIBLE,
    ROUTE_REQUESTS,
    ROUTE_REQUEST_SECONDS,
    ROUTE_UNANSWERED,
    UNREAD_BYTES,
    REQUESTS_IN_WORK,
    POOLS,
    MEMBERS,
    PARKED_FETCHES,
    WAITING_FETCHES,
    BACKLOG_RECORDS,
    BACKLOG_BYTES,
    BUFFERED_BYTES,
    IN_FLIGHT_RECORDS,
    COMMIT_HELD_SECONDS,
    UPSTREAM_LAG,
    UNOPENED_PARTITIONS,
    REPLAY_OFFSETS_LEFT,
    MOVE_RECORDS_LEFT,
    WAITING_COMMITS,
    MEMBERS_NEVER_COMMITTED,
    UPSTREAM_UP,
    UPSTREAM_PROBLEM_SECONDS,
    CONFIG_INFO,
    CONFIG_RELOAD_FAILED,
    CONFIG_RELOADED_SECONDS,
    CERTIFICATE_EXPIRY,
    CERTIFICATE_ENDS_SOON,
    UPSTREAM_CLIENT_FAILURES,
)


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One value of a metric. labels: the values in the order of the metric's labels."""

    family: MetricDefinition
    labels: tuple[str, ...]
    value: float


Collect: TypeAlias = Callable[[], Iterable[MetricSample]]

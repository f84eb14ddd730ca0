"""The states that Prometheus is told of, and what each of them means: gauges, asked for at the time of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A gauge whose samples are collected at scrape time; a counter if its name ends so."""

    name: str
    help: str
    labels: tuple[str, ...]

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")


CONNECTIONS: Final = MetricDefinition(
    "kafka_mesh_connections", "Client connections that are open.", ("virtual_cluster",)
)
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
    "Records that an interceptor was shown, by what became of them.",
    ("virtual_cluster", "interceptor", "topic", "outcome"),
)
INTERCEPTOR_SECONDS: Final = MetricDefinition(
    "kafka_mesh_interceptor_seconds_total",
    "Time that an interceptor took, in whatever process.",
    ("virtual_cluster", "interceptor", "topic"),
)
INTERCEPTOR_TIMEOUTS: Final = MetricDefinition(
    "kafka_mesh_interceptor_timeouts_total",
    "Attempts of requests that took too long, by the interceptors that saw them.",
    ("virtual_cluster", "interceptor"),
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
    "A topology description was given to its plugin, and that succeeded.",
    ("virtual_cluster",),
)
TOPOLOGY_SET_ERROR: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_set_error_total",
    "A topology description was given to its plugin, and that failed.",
    ("virtual_cluster",),
)
TOPOLOGY_GET_SUCCESS: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_get_success_total",
    "A topology description was asked for at its plugin, and that succeeded.",
    ("virtual_cluster",),
)
TOPOLOGY_GET_ERROR: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_get_error_total",
    "A topology description was asked for at its plugin, and that failed.",
    ("virtual_cluster",),
)
TOPOLOGY_DELETE_SUCCESS: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_delete_success_total",
    "A topology description was to be deleted by its plugin, and that succeeded.",
    ("virtual_cluster",),
)
TOPOLOGY_DELETE_ERROR: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_delete_error_total",
    "A topology description was to be deleted by its plugin, and that failed.",
    ("virtual_cluster",),
)
TOPOLOGY_CLEANUP_CYCLES: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_cleanup_cycle_total",
    "Looks for groups that are gone and had a topology description.",
    ("virtual_cluster",),
)
TOPOLOGY_CLEANUP_ELIGIBLE: Final = MetricDefinition(
    "kafka_mesh_streams_group_topology_description_cleanup_eligible",
    "Groups that the last such look found.",
    ("virtual_cluster",),
)
ROUTE_REQUESTS: Final = MetricDefinition(
    "kafka_mesh_route_requests_total",
    "Requests that a cluster behind a router answered: those that passed, and its parts of those that were divided.",
    ("virtual_cluster", "route", "api"),
)
ROUTE_REQUEST_SECONDS: Final = MetricDefinition(
    "kafka_mesh_route_request_seconds_total",
    "Time from sending such a request until its answer had come.",
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
    "kafka_mesh_requests_in_work", "Requests of any kind that are not answered yet.", ("virtual_cluster",)
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
    "Since when a member has held the record for which the committed offset of a partition waits, the longest of all "
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
    "Upstream partitions that are assigned here and cannot be read: nobody leads them, or the group may not.",
    ("virtual_cluster", "group", "cluster"),
)
WAITING_COMMITS: Final = MetricDefinition(
    "kafka_mesh_waiting_commits",
    "Commits of members that wait until they are stored upstream.",
    ("virtual_cluster", "group"),
)
MEMBERS_NEVER_COMMITTED: Final = MetricDefinition(
    "kafka_mesh_members_never_committed",
    "Members that came to their cap and have not committed once since they got their first records, 15 s ago or more.",
    ("virtual_cluster", "group"),
)
UPSTREAM_UP: Final = MetricDefinition(
    "kafka_mesh_upstream_up", "Whether an upstream cluster can be used.", ("cluster",)
)
UPSTREAM_PROBLEM_SECONDS: Final = MetricDefinition(
    "kafka_mesh_upstream_problem_seconds",
    "Since when something has been wrong with an upstream cluster; absent while nothing is.",
    ("cluster", "problem"),
)
CONFIG_INFO: Final = MetricDefinition(
    "kafka_mesh_config_info", "1 for the configuration that runs; its hash is made without secrets.", ("hash",)
)
CONFIG_RELOAD_FAILED: Final = MetricDefinition(
    "kafka_mesh_config_reload_failed",
    "Whether the configuration was refused when it was read last: the one before it goes on.",
    (),
)
CONFIG_RELOADED_SECONDS: Final = MetricDefinition(
    "kafka_mesh_config_reloaded_timestamp_seconds", "When the configuration that runs was read, since 1970.", ()
)
FAMILIES: Final = (
    CONNECTIONS,
    RELAY_ERRORS,
    RELAY_LEGS,
    RELAY_LEGS_LOST,
    INTERCEPTOR_RECORDS,
    INTERCEPTOR_SECONDS,
    INTERCEPTOR_TIMEOUTS,
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
    WAITING_COMMITS,
    MEMBERS_NEVER_COMMITTED,
    UPSTREAM_UP,
    UPSTREAM_PROBLEM_SECONDS,
    CONFIG_INFO,
    CONFIG_RELOAD_FAILED,
    CONFIG_RELOADED_SECONDS,
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a family; labels in the order of the family's."""

    family: MetricDefinition
    labels: tuple[str, ...]
    value: float


Collect: TypeAlias = Callable[[], Iterable[Sample]]

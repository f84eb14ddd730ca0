"""A cluster with data for every request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.integration.processes import eventually
from tests.relay.cluster import SeveralBrokers
from tests.relay.requests import KEYS
from tests.relay.scripts.records import batch
from tests.relay.sides import ASKED, Shared, spelt

PROPERTIES: Mapping[str, str] = {
    # Rules are stored, and not enforced.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    # A node that a noisy machine delays should keep its leadership.
    "broker.session.timeout.ms": "18000",
    "replica.lag.time.max.ms": "30000",
    # Members get their assignment as soon as they join.
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    # One side's leftovers must not be cleaned up while the other is compared.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "600000",
}

_TOPIC = "shared"
_COORDINATORS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_GROUP, _TRANSACTION, _SHARE = range(3)
_LONG = 900_000
"""Long enough that nothing ends by itself during a test."""
_STORED = 105
"""Twenty records of each of five codecs, one of each of three transactions, and the ends of two."""


def shared(cluster: SeveralBrokers, controller: int = ASKED) -> Shared:
    """The shared subject of all sides' requests. `Shared` describes it, with the controller."""
    nodes = sorted(cluster.addresses, key=lambda node: node != ASKED)
    places = [[*nodes[at:], *nodes[:at]] for at in range(len(nodes))]
    cluster.create_topic(_TOPIC, len(places), {"unclean.leader.election.enable": "false"}, places)
    (topic,) = cluster.ask(KEYS["metadata"], 12, topics=[{"name": _TOPIC}]).topics
    keys = {_GROUP: "any", _TRANSACTION: "any"}
    if KEYS["share_group_heartbeat"] in cluster.versions:
        keys[_SHARE] = f"any:{spelt(topic.topic_id)}:0"
    for key_type, key in keys.items():
        _until_coordinated(cluster, key_type, key)
        cluster.place(_COORDINATORS[key_type], 0, ASKED)
    _fill(cluster, topic.topic_id)
    return Shared(_TOPIC, topic.topic_id, cluster.cluster_id, cluster.versions, controller)


def _until_coordinated(cluster: SeveralBrokers, key_type: int, key: str) -> None:
    def is_there() -> bool:
        found = cluster.ask(KEYS["find_coordinator"], 6, key_type=key_type, key=key, coordinator_keys=[key])
        (one,) = getattr(found, "coordinators", (found,))
        return not one.error_code.value

    eventually(f"a coordinator for {key}", is_there)


def _fill(cluster: SeveralBrokers, topic_id: Any) -> None:
    def produce(records: bytes, **given: Any) -> None:
        data = [{"name": _TOPIC, "topic_id": topic_id, "partition_data": [{"index": 0, "records": records}]}]
        answer = cluster.ask(KEYS["produce"], 12, ASKED, acks=-1, timeout=30_000, topic_data=data, **given)
        (partition,) = answer.responses[0].partition_responses
        assert not partition.error_code.value, partition

    def known_at(node: int) -> int:
        data = [{"topic": _TOPIC, "partitions": [{"partition": 0, "fetch_offset": 0}]}]
        answer = cluster.ask(KEYS["fetch"], 12, node, replica_id=-1, max_bytes=1, session_epoch=-1, topics=data)
        return answer.responses[0].partitions[0].high_watermark  # type: ignore[no-any-return]

    def transact(api: str, version: int, **given: Any) -> Any:
        def answered() -> Any:
            answer = cluster.ask(KEYS[api], version, ASKED, **given)
            return None if getattr(answer, "error_code", answer).value else answer

        return eventually(api, answered)

    for codec in range(5):
        produce(batch(*_values(codec), codec=codec))
    for number, is_committed in enumerate((False, True, None)):
        name = f"of-all-{number}"
        who = transact("init_producer_id", 4, transactional_id=name, transaction_timeout=_LONG)
        me = {"transactional_id": name, "producer_id": who.producer_id, "producer_epoch": who.producer_epoch}
        added = [{"name": _TOPIC, "partitions": [0]}]
        old = {f"v3_and_below_{key}": value for key, value in {**me, "topics": added}.items()}
        cluster.ask(KEYS["add_partitions_to_txn"], 3, ASKED, **old)
        identity = {"producer_id": who.producer_id, "epoch": who.producer_epoch}
        produce(batch(b"transacted", **identity, sequence=0, is_transactional=True), transactional_id=name)
        if is_committed is not None:
            transact("end_txn", 3, **me, committed=is_committed)
    eventually("every node knows what all have", lambda: {known_at(node) for node in cluster.addresses} == {_STORED})


def _values(codec: int) -> Iterable[bytes]:
    return (b"%d-%d" % (codec, number) * (number + 1) for number in range(20))

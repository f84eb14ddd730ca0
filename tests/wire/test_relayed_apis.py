"""A relay passes on what clients ask of brokers, and nothing that servers ask each other."""

from __future__ import annotations

import pytest

from mesh.wire.apis import KNOWN_APIS, ApiKey
from mesh.wire.entities import Direction
from mesh.wire.relayed_apis import ADVERTISED_APIS, RELAYED_APIS
from tests.integration.jars import missing_programs
from tests.wire.entities.kafka_messages import definitions

BETWEEN_BROKERS = set(range(83, 88))
"""APIs of share coordinators: a client's listener advertises them too."""


def test_versions_are_those_that_are_known() -> None:
    assert all(KNOWN_APIS[api_key] == versions for api_key, versions in RELAYED_APIS.items())


def test_apis_between_servers_are_not_relayed() -> None:
    left_out = {52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82} | BETWEEN_BROKERS
    assert {int(api_key) for api_key in KNOWN_APIS.keys() - RELAYED_APIS.keys()} == left_out


def test_only_produce_is_advertised_in_versions_that_nobody_serves() -> None:
    served = {api_key: (versions.lowest, versions.highest) for api_key, versions in RELAYED_APIS.items()}
    assert {**served, ApiKey.PRODUCE: (0, 13)} == ADVERTISED_APIS


@pytest.mark.smoke
@pytest.mark.kafka
def test_they_are_what_kafka_serves_on_a_listener_of_brokers() -> None:
    if missing := missing_programs():
        pytest.skip(f"Kafka's classes need Java 17 and Maven; not found: {', '.join(missing)}")
    of_brokers = {
        int(api_key)
        for (api_key, side), definition in definitions().items()
        if side is Direction.REQUEST and "broker" in definition.listeners
    }
    assert {int(api_key) for api_key in RELAYED_APIS} == of_brokers - BETWEEN_BROKERS

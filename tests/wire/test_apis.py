"""The table of APIs agrees with Kafka's own classes, and with kio's schemas."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.request_header.v2.header import RequestHeader as TaggedRequestHeader
from kio.schema.response_header.v1.header import ResponseHeader as TaggedResponseHeader
from kio.static.constants import EntityType

from mesh.wire.apis import APIS, KNOWN_APIS, ApiKey, has_tagged_response_header, is_flexible
from tests.integration.jars import NEWEST_CLIENTS, kafka_jars, missing_programs

PROGRAM = Path(__file__).with_name("KafkaApis.java")
KNOWN_VERSIONS = {(api_key, version) for api_key, versions in KNOWN_APIS.items() for version in versions.all()}
NOT_IN_KIO = {
    (ApiKey.API_VERSIONS, 5),
    (ApiKey.TXN_OFFSET_COMMIT, 6),
    (ApiKey.DELETE_GROUPS, 3),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 1),
    (ApiKey.STREAMS_GROUP_DESCRIBE, 1),
    (ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0),
    (ApiKey.UNREGISTER_CONTROLLER, 0),
}
"""New APIs of Kafka 4.4."""


@pytest.mark.smoke
@pytest.mark.kafka
def test_keys_names_versions_and_headers_are_those_of_kafka() -> None:
    if missing := missing_programs():
        pytest.skip(f"Kafka's classes need Java 17 and Maven; not found: {', '.join(missing)}")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars(NEWEST_CLIENTS)}/*", str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == [
        f"{int(api_key)} {api_key.name} {version}"
        f" {1 + is_flexible(api_key, version)} {int(has_tagged_response_header(api_key, version))}"
        for api_key, versions in sorted(KNOWN_APIS.items())
        for version in versions.all()
    ]


@pytest.mark.parametrize("api_key", ApiKey)
def test_headers_and_encoding_are_those_of_kio(api_key: ApiKey) -> None:
    for version in KNOWN_APIS[api_key].all():
        if (api_key, version) not in NOT_IN_KIO:
            request, response = load_request_schema(api_key, version), load_response_schema(api_key, version)
            flexible = is_flexible(api_key, version)
            assert request.__name__ == f"{api_key.name.title().replace('_', '')}Request"
            assert (request.__flexible__, response.__flexible__) == (flexible, flexible)
            assert (request.__header_schema__ is TaggedRequestHeader) == flexible
            assert (response.__header_schema__ is TaggedResponseHeader) == has_tagged_response_header(api_key, version)


def test_kio_knows_nothing_that_the_table_lacks() -> None:
    in_kio = {
        (api_key, version)
        for api_key, name in api_key_map.items()
        for version, entities in schema_name_map[name].items()
        if EntityType.request in entities
    }
    assert in_kio == KNOWN_VERSIONS - NOT_IN_KIO


def test_what_can_be_decoded_is_known() -> None:
    for api_key, versions in APIS.items():
        assert KNOWN_APIS[api_key].lowest <= versions.lowest <= versions.highest <= KNOWN_APIS[api_key].highest
        assert versions.first_flexible == KNOWN_APIS[api_key].first_flexible


def test_versions_include_both_ends() -> None:
    assert list(APIS[ApiKey.FETCH].all()) == list(range(4, 18))

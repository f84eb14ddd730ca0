from __future__ import annotations

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.pool.apis.harness import APIS_SERVED, Client, Mesh, versions
from tests.pool.apis.messages import response

SERVED = tuple(
    {"api_key": int(key), "min_version": api.versions.lowest, "max_version": api.versions.highest}
    for key, api in APIS_SERVED.items()
)
SOFTWARE = {"client_software_name": "apache-kafka-java", "client_software_version": "4.1.0"}


@pytest.mark.parametrize("version", versions(ApiKey.API_VERSIONS))
def test_lists_exactly_the_table(version: int) -> None:
    answer = Client(Mesh()).ask(ApiKey.API_VERSIONS, version, **SOFTWARE)
    assert answer == response(ApiKey.API_VERSIONS, version, api_keys=SERVED)


def test_a_version_from_the_future_is_answered_in_the_form_of_v0() -> None:
    client = Client(Mesh())
    frame = client.bytes_of(ApiKey.API_VERSIONS, 0)
    unknown = b"\0\0\0\x10" + frame[4:6] + (5).to_bytes(2, "big") + frame[8:12] + b"\xff\xff\xff\xff\xff\xff\xff\xff"
    (answer,) = client.take(client.receive(unknown))
    own = [each for each in SERVED if each["api_key"] == ApiKey.API_VERSIONS]
    expected = response(ApiKey.API_VERSIONS, 0, error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
    assert answer == expected


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "ü", "x\n"])
def test_software_that_is_not_well_formed(version: int, name: str) -> None:
    for field in SOFTWARE:
        answer = Client(Mesh()).ask(ApiKey.API_VERSIONS, version, **{**SOFTWARE, field: name})
        assert answer == response(ApiKey.API_VERSIONS, version, error_code=ErrorCode.INVALID_REQUEST, api_keys=())

"""The table of APIs agrees with kio's schemas."""

from __future__ import annotations

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.request_header.v2.header import RequestHeader as TaggedRequestHeader
from kio.schema.response_header.v1.header import ResponseHeader as TaggedResponseHeader

from mesh.wire.apis import APIS, ApiKey, has_tagged_response_header, is_flexible
from tests.wire.entities import ALL_VERSIONS


@pytest.mark.parametrize(("api_key", "version"), ALL_VERSIONS)
def test_headers_and_encoding_are_those_of_kio(api_key: ApiKey, version: int) -> None:
    request, response = load_request_schema(api_key, version), load_response_schema(api_key, version)
    flexible = is_flexible(api_key, version)
    assert (request.__flexible__, response.__flexible__) == (flexible, flexible)
    assert (request.__header_schema__ is TaggedRequestHeader) == flexible
    assert (response.__header_schema__ is TaggedResponseHeader) == has_tagged_response_header(api_key, version)


@pytest.mark.parametrize("api_key", ApiKey)
def test_every_api_is_named_as_in_kio(api_key: ApiKey) -> None:
    name = load_request_schema(api_key, APIS[api_key].highest).__name__
    assert name == f"{api_key.name.title().replace('_', '')}Request"


def test_versions_include_both_ends() -> None:
    assert list(APIS[ApiKey.FETCH].all()) == list(range(4, 18))

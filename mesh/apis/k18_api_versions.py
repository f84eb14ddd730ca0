"""ApiVersions: v0-v4

Behaviour:
* Lists the APIs in the table of handlers, so an API without a handler is never advertised.
* A version above v4 is answered in the form of v0, with UNSUPPORTED_VERSION and only the versions of ApiVersions
  (KIP-511): franz-go would take any other list for all that is served. A client of Kafka 4.4 sends v5 first (KIP-1242),
  and falls back to v4.

Version notes:
* v3: flexible (KIP-482), the client's software name and version (KIP-511), which must be well formed.
* v3: the features of the target (KIP-584). Up to v3 supported features that begin at 0 are left out (KAFKA-17011).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mesh.apis.answers import Answer
from mesh.apis.api import Api, ListenerContext, as_it_is
from mesh.wire.apis import APIS, ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.features import FIRST_WITH_ZERO
from mesh.wire.messages import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

FIRST_VERSION_WITH_SOFTWARE = 3
WELL_FORMED = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: ListenerContext, request: ApiVersionsRequest) -> Sequence[Answer]:
    if context.is_version_unknown:
        own = ApiVersion(api_key=API.key, min_version=API.versions.lowest, max_version=API.versions.highest)
        return context.answer(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(own,)))
    software = (request.client_software_name, request.client_software_version)
    if context.version >= FIRST_VERSION_WITH_SOFTWARE and not all(map(WELL_FORMED.fullmatch, software)):
        return context.answer(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=()))
    keys = tuple(
        ApiVersion(api_key=key, min_version=versions.lowest, max_version=versions.highest)
        for key, versions in sorted(context.served.items())
    )
    features = context.features()
    return context.answer(
        ApiVersionsResponse(
            api_keys=keys,
            supported_features=tuple(
                SupportedFeatureKey(name=name, min_version=each.lowest, max_version=each.highest)
                for name, each in features.supported.items()
                if each.lowest > 0 or context.version >= FIRST_WITH_ZERO
            ),
            finalized_features_epoch=features.epoch,
            finalized_features=tuple(
                FinalizedFeatureKey(name=name, min_version_level=each.lowest, max_version_level=each.highest)
                for name, each in features.finalized.items()
            ),
        )
    )


API = Api(ApiKey.API_VERSIONS, APIS[ApiKey.API_VERSIONS], handle, as_it_is)

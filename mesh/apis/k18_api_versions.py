"""ApiVersions: v0-v4

Behaviour:
* Lists what is served, as the table of handlers says: nothing is advertised that has no handler.
* A version above v4 is answered in v0's form with UNSUPPORTED_VERSION and the versions of ApiVersions alone, by the
  wire layer, before a handler is asked (KIP-511); so a client of Kafka 4.4, which asks with v5 first (KIP-1242), falls
  back to v4.

Version notes:
* v3: flexible (KIP-482), the client's software name and version (KIP-511), which must be well formed.
* v3: features (KIP-584), those that the target has. Supported ones that begin at 0 are left out up to v3 (KAFKA-17011).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mesh.apis.answers import Answer
from mesh.apis.api import Api, RequestContext, as_it_is
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


def handle(context: RequestContext, request: ApiVersionsRequest) -> Sequence[Answer]:
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

"""The nodes of a cluster behind a router, and the features that the cluster has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from mesh.runtime.relay.nodes import VERSIONS, RelayNodes
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange
from mesh.wire.entities import Side
from mesh.wire.errors import ProtocolError
from mesh.wire.features import FIRST_VERSION, NO_FEATURES, Features, features_of
from mesh.wire.trees import read_tree, write_tree

_KEY: Final = ApiKey.API_VERSIONS
_OURS: Final = 4
"""The highest version that is asked in: v5 adds the cluster and the node that are meant, which is anybody here."""
_SOFTWARE: Final = {"client_software_name": "kafka-mesh", "client_software_version": version("kafka-mesh")}


class LeafNodes(RelayNodes):
    """The nodes of one cluster. A change of its features restarts no broker, so it is asked at each look.

    features: None until they are known.
    """

    features: Features | None = None

    async def _ask_more(self) -> None:
        try:
            async with asyncio.timeout(VERSIONS):
                self.features = await self.anywhere(_request_for, _decoded)
        except (Unreachable, TimeoutError):
            return  # what it said last holds


def _request_for(served: Mapping[int, VersionRange]) -> ClientRequest:
    known = served.get(_KEY)
    api_version = min(_OURS, known.highest if known is not None else 0)
    body = write_tree(_KEY, api_version, Side.REQUEST, _SOFTWARE)
    return ClientRequest(_KEY, api_version, api_version >= FIRST_VERSION, (body,))


def _decoded(response: ClientResponse) -> Features:
    api_version = response.request.api_version
    answer = read_tree(_KEY, api_version, Side.RESPONSE, response.frame[response.body :])
    if answer["error_code"]:
        raise ProtocolError("unexpected_response", f"ApiVersions was answered with error {answer['error_code']}")
    return features_of(answer) if api_version >= FIRST_VERSION else NO_FEATURES

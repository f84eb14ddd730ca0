"""The nodes of a cluster behind a router, and the features that the cluster has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Final

from mesh.runtime.relay.nodes import VERSIONS_TIMEOUT, RelayNodes
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.features import FIRST_VERSION, NO_FEATURES, Features, features_of
from mesh.wire.trees import read_tree, write_tree

_KEY: Final = ApiKey.API_VERSIONS
_OURS: Final = 4
"""The highest version of ApiVersions in the mesh's own requests: v5 adds the cluster and the node that the client
means."""
_SOFTWARE: Final = {"client_software_name": "kafka-mesh", "client_software_version": version("kafka-mesh")}


class LeafNodes(RelayNodes):
    """The nodes of one cluster, and its features. A change of features restarts no broker, so they are asked for at
    each check.

    features: None until they are known. check_further: asks for other facts about the cluster at each check.
    """

    features: Features | None = None
    check_further: Callable[[], Awaitable[None]] | None = None

    async def _check_more(self) -> None:
        try:
            async with asyncio.timeout(VERSIONS_TIMEOUT):
                self.features = await self.ask_any(_request_for, _decoded)
            if self.check_further is not None:
                async with asyncio.timeout(VERSIONS_TIMEOUT):
                    await self.check_further()
        except (Unreachable, TimeoutError):
            return  # the last report stays valid


def _request_for(served: Mapping[int, VersionRange]) -> ClientRequest:
    known = served.get(_KEY)
    api_version = min(_OURS, known.highest if known is not None else 0)
    body = write_tree(_KEY, api_version, Direction.REQUEST, _SOFTWARE)
    return ClientRequest(_KEY, api_version, api_version >= FIRST_VERSION, (body,))


def _decoded(response: ClientResponse) -> Features:
    api_version = response.request.api_version
    answer = read_tree(_KEY, api_version, Direction.RESPONSE, response.frame[response.body :])
    if answer["error_code"]:
        raise ProtocolError("unexpected_response", f"ApiVersions was answered with error {answer['error_code']}")
    return features_of(answer) if api_version >= FIRST_VERSION else NO_FEATURES

"""Metadata requests to a relay's cluster, for interceptors that have to know the names of topics."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.runtime.interception.topic_names import FIRST_BY_ID, AskMetadata
from mesh.runtime.relay.nodes import RelayNodes
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.client.connection import ClientRequest, ClientResponse
from mesh.wire.client.messages import VersionRange
from mesh.wire.entities import Direction
from mesh.wire.trees import Tree, read_tree, write_tree


def metadata_of(nodes: RelayNodes) -> AskMetadata:
    """Returns a function that sends Metadata requests to any node of a cluster."""

    def request_for(served: Mapping[int, VersionRange], request: Tree) -> ClientRequest:
        body = write_tree(ApiKey.METADATA, FIRST_BY_ID, Direction.REQUEST, request)
        return ClientRequest(ApiKey.METADATA, FIRST_BY_ID, is_flexible(ApiKey.METADATA, FIRST_BY_ID), (body,))

    def decoded(response: ClientResponse) -> Tree:
        return read_tree(ApiKey.METADATA, FIRST_BY_ID, Direction.RESPONSE, response.frame[response.body :])

    async def ask(request: Tree) -> Tree:
        return await nodes.ask_any(lambda served: request_for(served, request), decoded)

    return ask

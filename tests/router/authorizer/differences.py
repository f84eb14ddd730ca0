"""What a relay with rules says otherwise than a broker with the same ACLs, and means to."""

from __future__ import annotations

from mesh.wire.apis import ApiKey
from tests.router.authorizer.sides import Told


def is_known(api_key: ApiKey, version: int, user: str, broker: Told, mesh: Told) -> bool:
    return False

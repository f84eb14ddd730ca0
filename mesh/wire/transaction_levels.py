"""The levels of the feature transaction.version, and the versions of APIs with which level 2 begins (KIP-890).

With level 1 a client adds partitions to its transaction with AddPartitionsToTxn. With level 2 Produce adds them, and
the producer epoch rises with each transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mesh.wire.apis import ApiKey

TRANSACTIONS: Final = "transaction.version"
SECOND_PROTOCOL: Final[Mapping[ApiKey, int]] = {ApiKey.PRODUCE: 12, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}


def has_second_protocol(highest: Mapping[ApiKey, int]) -> bool:
    """Returns True if clients may use level 2 with these APIs. highest: the highest served version of each API."""
    return all(highest.get(key, -1) >= first for key, first in SECOND_PROTOCOL.items())


def of_first_protocol(served: Mapping[ApiKey, tuple[int, int]]) -> Mapping[ApiKey, tuple[int, int]]:
    """Returns the served versions without those of level 2."""
    return {
        key: (lowest, min(highest, SECOND_PROTOCOL[key] - 1) if key in SECOND_PROTOCOL else highest)
        for key, (lowest, highest) in served.items()
    }

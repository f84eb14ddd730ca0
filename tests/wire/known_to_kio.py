"""The error codes that kio has, too: 0.6.5 knows those of Kafka 4.3."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioErrorCode

from mesh.wire.errors import ErrorCode

_THEIRS = frozenset(each.value for each in KioErrorCode)
KNOWN_TO_KIO = tuple(code for code in ErrorCode if code.value in _THEIRS)

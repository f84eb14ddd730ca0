from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from mesh.wire.errors import ErrorCode
from tests.wire.known_to_kio import KNOWN_TO_KIO


@pytest.mark.parametrize("error_code", KNOWN_TO_KIO)
def test_codes_are_those_of_kafka(error_code: ErrorCode) -> None:
    assert KioErrorCode(error_code.value).name.upper().removesuffix("_EXCEPTION") == error_code.name


def test_kio_lacks_the_codes_of_4_4() -> None:
    others = {code.name: code.value for code in ErrorCode if code not in KNOWN_TO_KIO}
    assert others == {"GROUP_DELETION_FAILED": 134, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED": 135}

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from mesh.wire.errors import ErrorCode


@pytest.mark.parametrize("error_code", ErrorCode)
def test_codes_are_those_of_kafka(error_code: ErrorCode) -> None:
    assert KioErrorCode(error_code.value).name.upper().removesuffix("_EXCEPTION") == error_code.name

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial.writers import write_unsigned_varint
from kio.static.primitive import uvarint

from mesh.wire.reader import Cursor
from mesh.wire.writer import encode_unsigned_varint


@given(value=st.integers(0, 2**32 - 1) | st.sampled_from([0, 127, 128, 2**14 - 1, 2**14, 2**32 - 1]))
def test_varints_are_those_of_kio_and_come_back(value: int) -> None:
    expected = BytesIO()
    write_unsigned_varint(expected, uvarint(value))
    assert encode_unsigned_varint(value) == expected.getvalue()
    assert Cursor(encode_unsigned_varint(value)).unsigned_varint() == value


@pytest.mark.parametrize("value", [-1, 2**32])
def test_what_is_no_length_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="no encoding"):
        encode_unsigned_varint(value)

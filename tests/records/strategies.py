"""Records and batches as hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

from mesh.records.batch import RecordBatch
from mesh.records.decode import DecodedRecord
from mesh.records.encode import PlainRecord, encode_batch

_TIMESTAMP = st.integers(min_value=-1, max_value=1 << 48)
_BYTES = st.none() | st.binary(max_size=300)
_HEADERS = st.lists(st.tuples(st.sampled_from(["", "a", "trace", "größe"]), _BYTES), max_size=4)


@st.composite
def runs(draw: st.DrawFn) -> list[PlainRecord]:
    """The records of one run: offsets ascend, with gaps."""
    offset = draw(st.integers(min_value=0, max_value=1 << 52))
    run: list[PlainRecord] = []
    for gap in draw(st.lists(st.integers(min_value=1, max_value=300), min_size=1, max_size=20)):
        run.append((offset, draw(_TIMESTAMP), draw(_BYTES), draw(_BYTES), draw(_HEADERS)))
        offset += gap
    return run


@st.composite
def batches(draw: st.DrawFn) -> RecordBatch:
    run = draw(runs())
    return encode_batch(run[0][0] - draw(st.integers(min_value=0, max_value=min(run[0][0], 50))), run)


def as_records(run: list[PlainRecord]) -> list[DecodedRecord]:
    """The records to expect from a batch of this run."""
    return [
        DecodedRecord(offset, timestamp, False, key, value, tuple(headers or ()))
        for offset, timestamp, key, value, headers in run
    ]

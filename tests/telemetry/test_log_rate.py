from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.telemetry.log_rate import LogRate


@given(st.lists(st.floats(0.0, 3.0), max_size=300))
def test_what_is_written_is_bounded_and_what_is_not_is_counted(gaps: list[float]) -> None:
    rate, now, admitted, left_out = LogRate(per_second=5.0, burst=50.0), 1_000.0, 0, 0
    for gap in gaps:
        now += gap
        skipped = rate.admit(now)
        if skipped is not None:
            admitted += 1
            left_out += skipped
    assert admitted <= 50 + 5.0 * (now - 1_000.0)
    before = admitted + left_out
    last = rate.admit(now + 100.0)
    assert last is not None
    assert before + last == len(gaps)  # none is forgotten


def test_a_member_that_comes_seldom_is_never_left_out() -> None:
    rate = LogRate(per_second=5.0, burst=1.0)
    assert [rate.admit(float(second)) for second in range(100)] == [0] * 100

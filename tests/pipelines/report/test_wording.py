"""The wording of figures."""

from __future__ import annotations

import pytest

from mesh.pipelines.report.wording import duration, moment, number, percent


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (duration(None), "–"),
        (duration(0), "0 ms"),
        (duration(999), "999 ms"),
        (duration(1_000), "1 s"),
        (duration(1_540), "1.5 s"),
        (duration(60_000), "1 min"),
        (duration(5_400_000), "1.5 h"),
        (duration(864_000_000), "10 d"),
        (percent(0), "0 %"),
        (percent(0.000_01), "< 0.01 %"),
        (percent(0.0123), "1.23 %"),
        (percent(0.5), "50.0 %"),
        (number(9_999), "9,999"),
        (number(12_345), "12.3 k"),
        (number(3_400_000), "3.4 M"),
        (moment(0), "1970-01-01 00:00:00"),
    ],
)
def test_it_is_said(said: str, expected: str) -> None:
    assert said == expected

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.config.group_patterns import may_overlap


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("team-a", "team-*", True),
        ("team-a", "team-?", True),
        ("other", "team-*", False),
        ("*", "anything", True),
        ("team-a-*", "team-b-*", False),
        ("*-eu", "*-us", False),
        ("a*", "*b", True),
        ("a-*", "a-b-*", True),
        ("x[ab]", "x*", True),
    ],
)
def test_overlap(left: str, right: str, expected: bool) -> None:
    assert may_overlap(left, right) is expected
    assert may_overlap(right, left) is expected


_patterns = st.text("ab*?", max_size=5) | st.sampled_from(["[ab]", "a[!b]", "b[a]*", "*[b]"])


@given(_patterns, _patterns, st.text("ab", max_size=5))
def test_what_both_match_is_never_missed(left: str, right: str, group: str) -> None:
    if fnmatch.fnmatchcase(group, left) and fnmatch.fnmatchcase(group, right):
        assert may_overlap(left, right)

"""Certificates that the mesh shows: when they end, and from when on that is reported."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mesh.listener.certificates import Lifetime, degraded, lifetime_of, samples, watched_certificate
from mesh.listener.watched_files import Watched
from tests.integration.security.certificates import Authority

pytestmark = pytest.mark.anyio
DAY = 86_400.0


@pytest.mark.parametrize(
    ("days", "left"), [(1, 0.1), (30, 3.0), (70, 7.0), (90, 7.0), (3_650, 7.0)], ids=lambda each: str(each)
)
def test_the_last_part_is_a_tenth_and_at_most_seven_days(days: float, left: float) -> None:
    assert Lifetime(DAY, DAY + days * DAY).last_part == pytest.approx(DAY + (days - left) * DAY)


async def test_a_certificate_that_ends_soon_is_reported_until_a_newer_one_is_taken(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("mesh", life=timedelta(hours=10))
    ends = lifetime_of(str(pair.certificate))
    assert ends is not None
    taken: list[ssl.SSLContext] = []
    context = ssl.create_default_context()
    owner = {"virtual_cluster": "shop"}
    watched = watched_certificate(owner, str(pair.certificate), [str(pair.certificate)], lambda: context, taken.append)
    files: list[Watched[Any]] = [watched, Watched([], lambda: 0, lambda _: None)]
    assert list(samples(files)) == []
    watched.first()
    for now, is_soon in ((ends.last_part - 1, False), (ends.last_part, True)):
        found = list(samples(files, lambda now=now: now))  # type: ignore[misc]
        assert [each.value for each in found] == [ends.ends, is_soon]
        assert {each.labels for each in found} == {("shop", "", "", str(pair.certificate))}
    assert degraded(files, ends.last_part - 1) == []
    (soon,) = degraded(files, ends.last_part + 5)
    assert (soon["virtual_cluster"], soon["path"], soon["seconds"]) == ("shop", str(pair.certificate), 5.0)
    assert str(soon["reason"]).startswith("ends at 20")
    (late,) = degraded(files, ends.ends + 5)
    assert str(late["reason"]).startswith("ended at 20")
    authority.issue("mesh", life=timedelta(days=40))
    await watched.check()
    assert degraded(files, ends.ends + 5) == []
    newer = lifetime_of(str(pair.certificate))
    assert newer is not None
    assert [each.value for each in samples(files, lambda: ends.ends)] == [newer.ends, False]
    assert taken == [context, context]


def test_of_a_chain_the_first_end_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    chain = tmp_path / "chain.crt"
    first, second = (authority.issue(name, life=timedelta(hours=hours)) for name, hours in (("a", 20), ("b", 2)))
    chain.write_bytes(first.certificate.read_bytes() + second.certificate.read_bytes() + second.key.read_bytes())
    assert lifetime_of(str(chain)) == lifetime_of(str(second.certificate)) != lifetime_of(str(first.certificate))
    chain.write_text("no certificate")
    assert lifetime_of(str(chain)) is None

"""The types that read headers and keys: `stamp`, `drop_headers`, `filter`, `sample` and `size`."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mesh.interceptors.shipped.drop_headers import DropHeaders
from mesh.interceptors.shipped.filter import Filter, FilterConfig
from mesh.interceptors.shipped.sample import Sample
from mesh.interceptors.shipped.size import Size
from mesh.interceptors.shipped.stamp import Stamp, StampConfig
from mesh.interceptors.spi import On, Record
from mesh.interceptors.testing import Failed, intercepted


def headed(*headers: tuple[str, bytes | None]) -> Record:
    return Record(b"key", b"value", headers)


def headers_of(kind: Any, record: Record, config: dict[str, Any]) -> list[tuple[str, bytes | None]]:
    (found,) = intercepted(kind, [record], config, on=On.PRODUCE)
    assert (found.key, found.value) == (record.key, record.value)
    return list(found.headers)


def test_stamps_take_the_place_of_others() -> None:
    config = {"headers": {"by": "{principal}/{topic}", "in": "{virtual_cluster}"}}
    found = headers_of(Stamp, headed(("by", b"me"), ("kept", None), ("by", b"you")), config)
    assert found == [("kept", None), ("by", b"User:ANONYMOUS/orders"), ("in", b"testing")]
    ((_, time),) = headers_of(Stamp, headed(), {"headers": {"at": "{time}"}})
    assert int(time or b"") > 1_700_000_000_000


@pytest.mark.parametrize("text", ["{unknown}", "{", "{0}", "{}"])
def test_a_stamp_says_what_is_known(text: str) -> None:
    with pytest.raises(ValidationError, match="may stand"):
        StampConfig.model_validate({"headers": {"by": text}})


def test_headers_are_dropped_by_patterns() -> None:
    config = {"names": ["internal-*", "trace"]}
    record = headed(("internal-a", b"1"), ("a", b"2"), ("trace", None), ("traces", b"3"))
    assert headers_of(DropHeaders, record, config) == [("a", b"2"), ("traces", b"3")]


RECORDS = [headed(("region", region)) for region in (b"eu", b"us", None, b"eu-west")] + [
    headed(),
    headed(("region", b"us"), ("region", b"eu")),
]


@pytest.mark.parametrize(("config", "kept"), [({"equals": "eu"}, [0, 5]), ({"pattern": "eu*"}, [0, 3, 5])])
def test_what_matches_is_kept(config: dict[str, str], kept: list[int]) -> None:
    assert [each.offset for each in intercepted(Filter, RECORDS, {"header": "region", **config})] == kept


@pytest.mark.parametrize("config", [{}, {"equals": "a", "pattern": "b"}])
def test_a_filter_asks_for_one_thing(config: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="one of equals and pattern"):
        FilterConfig.model_validate({"header": "region", **config})


def test_a_sample_is_the_same_each_time() -> None:
    records = [Record(b"%d" % (number // 2), b"") for number in range(2_000)]
    kept = [each.offset for each in intercepted(Sample, records, {"part": 0.25})]
    assert 400 < len(kept) < 600, "of a fixed hash: always the same number"
    assert all((offset ^ 1) in kept for offset in kept), "both records of a key"
    assert len(intercepted(Sample, records, {"part": 1})) == 2_000
    assert intercepted(Sample, [Record(None, b""), Record(b"1", b"")], {"part": 1})[0].offset == 1


def test_sizes_count_key_value_and_headers() -> None:
    record = headed(("größe", b"12"))
    size = 3 + 5 + 7 + 2
    assert intercepted(Size, [record], {"maximum": size}, on=On.PRODUCE) == [record._replace(size=0)]
    with pytest.raises(Failed, match=f"a record of {size} bytes; up to {size - 1} are allowed"):
        intercepted(Size, [record], {"maximum": size - 1}, on=On.PRODUCE)

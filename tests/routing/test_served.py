"""The APIs that are served if several clusters and routers restrict them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.routing.served import common, common_of, limited
from mesh.routing.spi import Served
from mesh.wire.apis import ApiKey

RANGES = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda each: (min(each), max(each)))
SERVED = st.dictionaries(st.sampled_from([ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.METADATA]), RANGES)


def has(served: Served | None, key: ApiKey, version: int) -> bool:
    return served is None or (key in served and served[key][0] <= version <= served[key][1])


@given(st.lists(st.none() | SERVED, max_size=4), SERVED)
def test_a_version_is_served_if_all_serve_it(all_served: list[Served | None], ours: Served) -> None:
    found, here = common_of(all_served), limited(ours, common_of(all_served))
    for key in (ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.HEARTBEAT):
        for version in range(6):
            everywhere = all(has(each, key, version) for each in all_served)
            assert has(found, key, version) is everywhere
            assert has(here, key, version) is (everywhere and has(ours, key, version))


def test_nothing_is_left_of_ranges_that_do_not_meet() -> None:
    assert common({ApiKey.FETCH: (0, 3)}, {ApiKey.FETCH: (4, 9)}) == {}

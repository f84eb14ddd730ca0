"""Which requests for a replay are valid."""

from __future__ import annotations

import pytest
from starlette.datastructures import QueryParams

from mesh.admin.replay_bodies import ReplayRequest, replay_request_of
from mesh.admin.request_parameters import RefusedRequest
from mesh.pool.state.replayed import RecordFilter
from mesh.records.spans import ClusterName, Span, TopicName, UpstreamPartition

TODAY = 1_795_600_800.0
"""2026-11-25T10:00:00Z."""


def wanted(query: str) -> ReplayRequest:
    return replay_request_of(QueryParams(query), TODAY)


def test_times_before_now_or_of_the_calendar() -> None:
    found = wanted("group=billing&from=2h&to=30m")
    assert (found.begin, found.end) == (1_795_593_600_000, 1_795_599_000_000)
    found = wanted("group=billing&from=2026-11-25T09:00:00Z")
    assert (found.begin, found.end) == (1_795_597_200_000, None)
    assert wanted("group=billing&from=2026-11-25T10:00:00%2B01:00").begin == 1_795_597_200_000
    assert not found.is_dry
    assert found.rate is None
    assert found.filter.is_for_all


def test_offsets_of_a_partition() -> None:
    found = wanted("group=billing&partition=eu/orders-3&offset=4711&last=4720&dry_run=true")
    source = UpstreamPartition(ClusterName("eu"), TopicName("orders"), 3)
    assert found.offsets == (source, Span(4711, 4720))
    assert found.is_dry
    assert wanted("group=billing&partition=eu/orders-3&offset=7").offsets == (source, Span(7, 7))


def test_filter_rate_and_topics() -> None:
    found = wanted("group=b&from=1h&header=region=eu&header=kind=a=b&key=k&rate=100&topic=orders&topic=users")
    assert found.filter == RecordFilter((("region", b"eu"), ("kind", b"a=b")), b"k")
    assert found.rate == 100
    assert found.topics == ("orders", "users")
    assert found.id is None
    assert wanted("group=b&from=1h&replay=mended-2").id == "mended-2"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "from: not there: a time like 2026-11-26T10:00:00Z, or a duration before now like 2h"),
        ("from=yesterday", "from: 'yesterday', not a time like"),
        ("from=5", "from: '5', not a time like"),
        ("from=2026-11-25T09:00:00", "from: '2026-11-25T09:00:00', without its zone: 2026-11-25T09:00:00Z"),
        ("from=2027-11-25T09:00:00Z", "not in the past"),
        ("from=1h&to=2h", "to: '2h', not later than from"),
        ("from=1h&rate=0", "rate: '0', not records a second from 1 to"),
        ("from=1h&rate=fast", "rate: 'fast', not records a second"),
        ("from=1h&rate=9999999999", "rate: '9999999999', not"),
        ("from=1h&header=kind", "header: 'kind', not NAME=VALUE"),
        ("from=1h&header=%3Dkind", "header: '=kind', not NAME=VALUE"),
        ("from=1h&" + "&".join(["header=a=b"] * 17), "header: 17 of them, not 16 at most"),
        ("from=1h&key=" + "k" * 257, "header, key: 257 bytes together, not 256 at most"),
        ("from=1h&offset=3", "offset: '3', only with partition"),
        ("partition=eu/orders-3&offset=3&from=1h", "from: '1h', not with partition"),
        ("partition=eu/orders-3", "offset: None, not an offset"),
        ("partition=eu/orders-3&offset=9&last=3", "last: 3, not an offset from 9 on"),
        ("partition=orders&offset=9", "partition: 'orders', not CLUSTER/TOPIC-NUMBER"),
        ("from=1h&replay=a%20b", "replay: 'a b', not a name of 1 to 32 letters"),
        ("from=1h&dry_run=yes", "dry_run: 'yes', not true or false"),
        ("from=1h&filter=a", "filter: not one of dry_run, from, group"),
    ],
)
def test_mistakes_name_the_key_the_value_and_what_is_allowed(query: str, said: str) -> None:
    with pytest.raises(RefusedRequest) as refusal:
        wanted(query)
    assert said in str(refusal.value)
    assert refusal.value.status == 400

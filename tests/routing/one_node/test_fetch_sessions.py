"""Fetch sessions, as a broker keeps them (KIP-227)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from mesh.routing.one_node import fetch_sessions
from mesh.routing.one_node.fetch_sessions import FetchSessions, Key, Resolved
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

VERSION = 12
ONE, TWO = ("orders", 0), ("orders", 1)


def request(id: int, epoch: int, keys: Sequence[Key] = (), forgotten: Sequence[Key] = (), offset: int = 0) -> Tree:
    return {
        "session_id": id,
        "session_epoch": epoch,
        "topics": [{"topic": topic, "partitions": [{"partition": at, "fetch_offset": offset}]} for topic, at in keys],
        "forgotten_topics_data": [{"topic": topic, "partitions": [at]} for topic, at in forgotten],
    }


def told(high_watermark: int = 5, records: bytes = b"", error: int = 0, start: int = 0) -> Tree:
    ends = {"high_watermark": high_watermark, "log_start_offset": start}
    return {"error_code": error, "records": records, **ends}


def sessions() -> FetchSessions:
    return FetchSessions(count(7).__next__)


def resolved(known: FetchSessions, asked: Tree, version: int = VERSION) -> Resolved:
    found = known.resolve(version, asked)
    assert isinstance(found, Resolved)
    return found


def test_a_session_goes_on_with_what_changes() -> None:
    known = sessions()
    first = resolved(known, request(0, 0, [ONE, TWO]))
    assert (first.session_id, first.is_full, list(first.partitions)) == (7, True, [ONE, TWO])
    second = resolved(known, request(7, 1, [TWO], offset=3))
    assert (second.session_id, second.is_full, list(second.partitions)) == (7, False, [ONE, TWO])
    assert [each["fetch_offset"] for each in second.partitions.values()] == [0, 3]
    third = resolved(known, request(7, 2, forgotten=[ONE]))
    assert list(third.partitions) == [TWO], "it is paused"
    last = resolved(known, request(7, 3, forgotten=[TWO]))
    assert (last.session_id, last.partitions, len(known)) == (0, {}, 0)


def test_errors_are_those_of_a_broker() -> None:
    known = sessions()
    resolved(known, request(0, 0, [ONE]))
    assert known.resolve(VERSION, request(8, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert known.resolve(VERSION, request(7, 2)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert known.resolve(13, request(7, 1)) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert resolved(known, request(7, 1)).session_id == 7, "none of these has ended it"


def test_a_session_ends_where_another_begins_in_its_place_or_none() -> None:
    known = sessions()
    resolved(known, request(0, 0, [ONE]))
    assert resolved(known, request(7, 0, [ONE])).session_id == 8
    assert resolved(known, request(8, -1, [ONE])).session_id == 0
    assert len(known) == 0


def test_versions_before_sessions_have_none() -> None:
    asked = {"topics": request(0, 0, [ONE])["topics"]}
    assert resolved(sessions(), asked, 4).session is None


def test_an_answer_has_what_is_news() -> None:
    session = resolved(sessions(), request(0, 0, [ONE, TWO])).session
    assert session is not None
    assert session.maybe_update_response(ONE, told(), is_full=True)
    assert not session.maybe_update_response(ONE, told(), is_full=False)
    assert session.maybe_update_response(ONE, told(6), is_full=False)
    assert session.maybe_update_response(ONE, told(6, start=2), is_full=False)
    assert session.maybe_update_response(ONE, told(6, error=6, start=2), is_full=False)
    assert session.maybe_update_response(ONE, told(6, start=2), is_full=False), "that the error is over"
    assert session.maybe_update_response(ONE, told(6, b"records", start=2), is_full=False)
    assert list(session.partitions) == [TWO, ONE], "who had nothing comes first"


def test_sessions_and_their_partitions_are_bounded() -> None:
    known = sessions()
    for _ in range(3 * fetch_sessions.MOST_SESSIONS):
        resolved(known, request(0, 0, [ONE]))
    assert len(known) == fetch_sessions.MOST_SESSIONS
    many = [("orders", partition) for partition in range(fetch_sessions.MOST_PARTITIONS + 1)]
    assert resolved(known, request(0, 0, many)).session is None

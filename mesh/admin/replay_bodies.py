"""Parses a request for a replay, or refuses it with a reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from starlette.datastructures import QueryParams

from mesh.admin.request_parameters import RefusedRequest, offset_of, partition_of
from mesh.pool.offsets.replays import MOST_HEADERS
from mesh.pool.state.replayed import LONGEST_FILTER, LONGEST_ID, MOST_RATE, RecordFilter, ReplayId
from mesh.quantities import parse_duration
from mesh.records.spans import Span, UpstreamPartition

KEYS: Final = frozenset(
    {
        *("virtual_cluster", "group", "to_group", "from", "to", "topic", "partition", "offset", "last"),
        *("header", "key", "rate", "dry_run", "replay"),
    }
)
_FORMS: Final = "a time like 2026-11-26T10:00:00Z, or a duration before now like 2h"


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The replay of a request. id: None for a generated one. begin, end: ms since the epoch; end: None for now. topics:
    the names that members use; none for all. offsets: of one partition, instead of times."""

    id: ReplayId | None
    begin: int
    end: int | None
    topics: tuple[str, ...]
    offsets: tuple[UpstreamPartition, Span] | None
    filter: RecordFilter
    rate: int | None
    is_dry: bool


def replay_request_of(asked: QueryParams, today: float) -> ReplayRequest:
    """Returns the replay of a request. today: seconds since the epoch. Raises RefusedRequest with the key, the value
    and the allowed values."""
    if unknown := sorted(set(asked) - KEYS):
        raise RefusedRequest(400, f"{unknown[0]}: not one of {', '.join(sorted(KEYS))}")
    is_dry = asked.get("dry_run", "false")
    if is_dry not in {"true", "false"}:
        raise RefusedRequest(400, f"dry_run: {is_dry!r}, not true or false")
    offsets = _offsets(asked)
    begin, end = (0, None) if offsets is not None else _times(asked, today)
    topics = tuple(asked.getlist("topic"))
    return ReplayRequest(_id(asked), begin, end, topics, offsets, _filter(asked), _rate(asked), is_dry == "true")


def _id(asked: QueryParams) -> ReplayId | None:
    given = asked.get("replay")
    if given is not None and not re.fullmatch(rf"[0-9A-Za-z._-]{{1,{LONGEST_ID}}}", given):
        raise RefusedRequest(
            400, f"replay: {given!r}, not a name of 1 to {LONGEST_ID} letters, digits, dots and dashes"
        )
    return ReplayId(given) if given is not None else None


def _offsets(asked: QueryParams) -> tuple[UpstreamPartition, Span] | None:
    if "partition" not in asked:
        if extra := next((key for key in ("offset", "last") if key in asked), None):
            raise RefusedRequest(400, f"{extra}: {asked[extra]!r}, only with partition")
        return None
    if extra := next((key for key in ("from", "to", "topic") if key in asked), None):
        raise RefusedRequest(400, f"{extra}: {asked[extra]!r}, not with partition, which has offsets")
    first = offset_of("offset", asked.get("offset"))
    last = offset_of("last", asked["last"]) if "last" in asked else first
    if last < first:
        raise RefusedRequest(400, f"last: {last}, not an offset from {first} on")
    return partition_of(asked["partition"]), Span(first, last)


def _times(asked: QueryParams, today: float) -> tuple[int, int | None]:
    if "from" not in asked:
        raise RefusedRequest(400, f"from: not there: {_FORMS}; or a partition with offsets")
    begin = _time("from", asked["from"], today)
    end = _time("to", asked["to"], today) if "to" in asked else None
    if end is not None and end <= begin:
        raise RefusedRequest(400, f"to: {asked['to']!r}, not later than from")
    if begin > today * 1000:
        raise RefusedRequest(400, f"from: {asked['from']!r}, not in the past")
    return begin, end


def _time(key: str, given: str, today: float) -> int:
    if re.fullmatch(r"\d+(\.\d+)?(ms|s|m|h)", given):
        return max(round((today - parse_duration(given)) * 1000), 0)
    try:
        time = datetime.fromisoformat(given)
    except ValueError:
        raise RefusedRequest(400, f"{key}: {given!r}, not {_FORMS}") from None
    if time.tzinfo is None:
        raise RefusedRequest(400, f"{key}: {given!r}, without its zone: {given}Z, or {given}+02:00")
    return max(round(time.timestamp() * 1000), 0)


def _filter(asked: QueryParams) -> RecordFilter:
    headers: list[tuple[str, bytes]] = []
    for each in asked.getlist("header"):
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise RefusedRequest(400, f"header: {each!r}, not NAME=VALUE")
        headers.append((name, value.encode()))
    if len(headers) > MOST_HEADERS:
        raise RefusedRequest(400, f"header: {len(headers)} of them, not {MOST_HEADERS} at most")
    chosen = RecordFilter(tuple(headers), asked["key"].encode() if "key" in asked else None)
    if chosen.size > LONGEST_FILTER:
        raise RefusedRequest(400, f"header, key: {chosen.size} bytes together, not {LONGEST_FILTER} at most")
    return chosen


def _rate(asked: QueryParams) -> int | None:
    given = asked.get("rate")
    if given is None:
        return None
    if not re.fullmatch(r"[0-9]{1,10}", given) or not 1 <= int(given) <= MOST_RATE:
        raise RefusedRequest(400, f"rate: {given!r}, not records a second from 1 to {MOST_RATE}")
    return int(given)

"""Checks that every router by names must pass. Authors of routers use them in their tests."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from mesh.routing.names import RouteName
from mesh.routing.spi import EntityRouter, Place

_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def problems_of(
    router: EntityRouter,
    topics: Mapping[str, Collection[str]],
    names: Collection[str] = (),
    ids: Collection[str] = (),
) -> Iterator[str]:
    """Yields the problems of a router; none for a good one.

    topics: possible topics of each route; all routes of the router are keys. names: topics that clients may ask for.
    ids: group ids and transactional ids.
    """
    yield from _homes(router, topics, ids)
    shown: dict[str, Place] = {}
    for route, there in topics.items():
        together = router.topics_of(RouteName(route), tuple(there))
        yield from _answers(router, RouteName(route), there, together)
        for topic, name in together.items():
            place = Place(RouteName(route), topic)
            yield from _is_shown_well(router, place, name)
            if (first := shown.setdefault(name, place)) != place:
                yield f"clients call {_text(first)} and {_text(place)} both {name!r}"
    for name in names:
        yield from _leads_well(router, name, topics)
    yield from _concatenates_well(router, topics)


def _homes(router: EntityRouter, routes: Collection[str], ids: Collection[str]) -> Iterator[str]:
    homes = [("default", router.default, router.default)]
    for id in ids:
        homes.append((f"group({id!r})", router.group(id), router.group(id)))
        homes.append((f"transactional_id({id!r})", router.transactional_id(id), router.transactional_id(id)))
    for call, route, again in homes:
        if route not in routes:
            yield f"{call} is {route!r}, which is none of its routes: {', '.join(sorted(routes))}"
        if route != again:
            yield f"{call} is {route!r} once, and then {again!r}"


def _answers(
    router: EntityRouter, route: RouteName, there: Collection[str], together: Mapping[str, str]
) -> Iterator[str]:
    """Yields the problems in a router's answers. together: its answer about all topics of a route at once."""
    for topic in sorted(set(together) - set(there)):
        yield f"topics_of({route!r}, ...) has {topic!r}, which was not asked about"
    for topic in there:
        alone = router.topics_of(route, (topic,))
        if alone.get(topic) != together.get(topic):
            yield f"topics_of({route!r}, [{topic!r}]) is {dict(alone)}, and among others {together.get(topic)!r}"


def _is_shown_well(router: EntityRouter, place: Place, name: str) -> Iterator[str]:
    if _TOPIC.fullmatch(name) is None:
        yield f"clients call {_text(place)} {name!r}, which is no name of a topic"
    if (back := router.topic(name)) != place:
        yield f"clients call {_text(place)} {name!r}, but topic({name!r}) is {_text(back)}"
    if name != place.topic and not router.renames(place.route):
        yield f"clients call {_text(place)} {name!r}, but renames({place.route!r}) is False"


def _leads_well(router: EntityRouter, name: str, routes: Collection[str]) -> Iterator[str]:
    place = router.topic(name)
    if place is None:
        return
    if place.route not in routes:
        yield f"topic({name!r}) is behind {place.route!r}, which is none of its routes: {', '.join(sorted(routes))}"
    elif _TOPIC.fullmatch(place.topic) is None:
        yield f"topic({name!r}) is {place.topic!r}, which is no name of a topic"
    elif router.topics_of(place.route, (place.topic,)) != {place.topic: name}:
        yield f"topic({name!r}) is {_text(place)}, but clients are not shown that by this name"


def _concatenates_well(router: EntityRouter, routes: Collection[str]) -> Iterator[str]:
    if router.concatenated() != router.concatenated():
        yield "concatenated() is something else each time"
    places: dict[tuple[str, str], str] = {}
    for name, parts in router.concatenated().items():
        call = f"concatenated()[{name!r}]"
        if _TOPIC.fullmatch(name) is None:
            yield f"{call} is no name of a topic"
        if not parts or len({part.route for part in parts}) < len(parts):
            yield f"{call} has to have parts, each behind a route of its own"
        for part in parts:
            if part.route not in routes:
                allowed = ", ".join(sorted(routes))
                yield f"{call} has a part behind {part.route!r}, which is none of its routes: {allowed}"
            if _TOPIC.fullmatch(part.topic) is None or part.width < 1:
                yield f"{call} has a part that cannot be: {part.topic!r} with {part.width} partitions"
            if (first := places.setdefault((part.route, part.topic), name)) != name:
                yield f"{call} and {first!r} have the same part: {part.topic!r} of {part.route}"


def _text(place: Place | None) -> str:
    return "no topic" if place is None else f"{place.topic!r} of {place.route}"

"""The router `topics`: makes a union of its routes, by rules for the names of topics, groups and transactional ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final

from pydantic import AfterValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from mesh.routing.graph import Decides
from mesh.routing.names import RouteName
from mesh.routing.routers.rules import NameRule, Pattern, RuleModel, first_route, matcher, unknown_routes
from mesh.routing.spi import ConfigMistake, EntityRouter, FactoryContext, PartPlace, Place, RouterFactory

_LONGEST_NAME: Final = 249
_REMEMBERED: Final = 20_000
"""The most names whose owners are remembered. Most clusters have fewer topics; clients choose the names, so the number
is bounded."""
MOST_PARTITIONS: Final = 10_000
"""The most partitions of one part of a concatenated topic."""
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,249}")
_BY_NAME, _BY_PREFIX, _BY_PATTERN = "a topic by name", "topics by prefix", "topics by pattern"
_KINDS: Final = {"name": _BY_NAME, "prefix": _BY_PREFIX, "pattern": _BY_PATTERN}
"""The kinds of rules in pydantic's error locations, by the key that only this kind has."""
_WILDCARD: Final = re.compile(r"[*?\[]")


def _matching(compiled: re.Pattern[str], allowed: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if compiled.fullmatch(value) is None:
            raise PydanticCustomError("text", "{allowed}", {"allowed": allowed})
        return value

    return check


Topic = Annotated[
    str, AfterValidator(_matching(_TOPIC, "a topic name: 1 to 249 letters, digits, dots, underscores, hyphens"))
]
Prefix = Annotated[
    str, AfterValidator(_matching(_PREFIX, "how a topic name begins: letters, digits, dots, underscores, hyphens"))
]


def _check_width(width: int) -> int:
    if not 1 <= width <= MOST_PARTITIONS:
        raise PydanticCustomError("width", "{allowed}", {"allowed": f"partitions: 1 to {MOST_PARTITIONS}"})
    return width


Width = Annotated[int, AfterValidator(_check_width)]


class NamedRule(RuleModel):
    """A rule for one topic."""

    name: Topic = Field(description="The name that clients use.")
    route: RouteName = Field(description="Name of the route.")
    topic: Topic | None = Field(default=None, description="Its name there, if different.")


class RoutedPrefix(RuleModel):
    """A rule for topics whose names begin with a prefix."""

    prefix: Prefix = Field(description="The prefix of the topics' names; an empty one matches all.")
    route: RouteName = Field(description="Name of the route.")
    strip: bool = Field(default=False, description="Whether their names there lack it.")


class PatternRule(RuleModel):
    """A rule for topics whose names match a pattern. They keep their names."""

    pattern: Pattern = Field(description="Pattern of topic names.")
    route: RouteName = Field(description="Name of the route.")


TopicRule = Annotated[
    Annotated[NamedRule, Tag(_BY_NAME)]
    | Annotated[RoutedPrefix, Tag(_BY_PREFIX)]
    | Annotated[PatternRule, Tag(_BY_PATTERN)],
    Discriminator(
        lambda value: _kind_of(value),
        custom_error_type="topic_rule",
        custom_error_message="{name, route, topic}, {prefix, route, strip} or {pattern, route}",
    ),
]


def _kind_of(value: object) -> str | None:
    keys = set(value) if isinstance(value, dict) else set(vars(value)) if isinstance(value, RuleModel) else set()
    kinds = [kind for key, kind in _KINDS.items() if key in keys]
    return kinds[0] if len(kinds) == 1 else None


class PartRule(RuleModel):
    """A part of a concatenated topic."""

    route: RouteName = Field(description="Name of a route to a cluster; no two parts have the same.")
    topic: Topic | None = Field(default=None, description="Its name there, if different.")
    width: Width = Field(description="How many partitions of it clients see.")


class ConcatenatedRule(RuleModel):
    """A topic whose partitions are those of several topics."""

    name: Topic = Field(description="The name that clients use.")
    parts: tuple[PartRule, ...] = Field(description="In the order of their partitions.")

    def places(self) -> tuple[PartPlace, ...]:
        return tuple(PartPlace(part.route, part.topic or self.name, part.width) for part in self.parts)


class TopicsConfig(RuleModel):
    topics: tuple[TopicRule, ...] = Field(description="Which route a topic belongs to: the first rule that matches.")
    concatenated: tuple[ConcatenatedRule, ...] = Field(
        default=(), description="Topics made of the partitions of topics of several routes."
    )
    groups: tuple[NameRule, ...] = Field(default=(), description="The home of groups.")
    transactional_ids: tuple[NameRule, ...] = Field(default=(), description="The home of transactions.")
    default: RouteName = Field(
        description="The home of groups and transactions without a rule, and of cluster-wide requests."
    )

    def moved_from(self, before: TopicsConfig) -> Iterator[tuple[str, int]]:
        """Yields the concatenated topics in which a partition would get another number, each with its index in
        `concatenated`. A topic that becomes concatenated, or ceases to be, is not included: like any other rule, that
        change makes the name mean another topic."""
        old = Topics(before).concatenated()
        for index, topic in enumerate(self.concatenated):
            if topic.name in old and not _goes_on(old[topic.name], topic.places()):
                yield topic.name, index


def _goes_on(before: Sequence[PartPlace], after: Sequence[PartPlace]) -> bool:
    """Returns True if all partitions of a concatenated topic keep their numbers: only the last part may become wider,
    and parts may be added."""
    *kept, last = before
    if [*after[: len(kept)]] != kept or len(after) < len(before):
        return False
    same = after[len(kept)]
    return (same.route, same.topic) == (last.route, last.topic) and same.width >= last.width


@dataclass(frozen=True, slots=True)
class _Wide:
    """A rule for many topics. strips: how many characters of the clients' name the topic's name lacks. matches: checks
    clients' names."""

    route: RouteName
    prefix: str
    strips: int
    matches: Callable[[str], bool]

    def place(self, name: str) -> Place | None:
        """Returns the place of a topic, None if the rule does not match. An empty name, `.` and `..` are not names of
        topics."""
        if not self.matches(name) or name[self.strips :] in ("", ".", ".."):
            return None
        return Place(self.route, name[self.strips :])


def _wide(rule: RoutedPrefix | PatternRule) -> _Wide:
    if isinstance(rule, PatternRule):
        return _Wide(rule.route, "", 0, matcher([rule.pattern]))
    return _Wide(rule.route, rule.prefix, len(rule.prefix) * rule.strip, lambda name: name.startswith(rule.prefix))


class Topics(EntityRouter):
    """The router of a TopicsConfig. The first rule that matches a name decides on the topic's owner. If several names
    lead to one topic, clients see the name of the first rule."""

    def __init__(self, config: TopicsConfig) -> None:
        self._default = config.default
        self._group = first_route(config.groups, config.default)
        self._transactional_id = first_route(config.transactional_ids, config.default)
        self._named: dict[str, tuple[int, Place]] = {}
        self._names: dict[Place, str] = {}
        self._wide: list[tuple[int, _Wide]] = []
        for index, rule in enumerate(config.topics):
            if isinstance(rule, NamedRule):
                place = Place(rule.route, rule.topic or rule.name)
                self._named.setdefault(rule.name, (index, place))
                self._names.setdefault(place, rule.name)
            else:
                self._wide.append((index, _wide(rule)))
        self._stripping: dict[RouteName, list[_Wide]] = {}
        for _, each in self._wide:
            if each.strips:
                self._stripping.setdefault(each.route, []).append(each)
        renamed = (
            each for each in config.topics if isinstance(each, NamedRule) and each.topic not in (None, each.name)
        )
        self._renamed = {each.route for each in renamed} | set(self._stripping)
        self._concatenated = {each.name: each.places() for each in config.concatenated}
        self._first = lru_cache(_REMEMBERED)(self._first_rule)
        self._called = lru_cache(_REMEMBERED)(self._first_name)

    @property
    def default(self) -> RouteName:
        return self._default

    def topic(self, name: str) -> Place | None:
        found = self._first(name) if len(name) <= _LONGEST_NAME else None
        return found[1] if found is not None and self._called(found[1]) == name else None

    def topics_of(self, route: RouteName, names: Sequence[str]) -> Mapping[str, str]:
        found = ((topic, self._called(Place(route, topic))) for topic in names if len(topic) <= _LONGEST_NAME)
        return {topic: called for topic, called in found if called is not None}

    def concatenated(self) -> Mapping[str, Sequence[PartPlace]]:
        return self._concatenated

    def group(self, id: str) -> RouteName:
        return self._group(id)

    def transactional_id(self, id: str) -> RouteName:
        return self._transactional_id(id)

    def renames(self, route: RouteName) -> bool:
        return route in self._renamed

    def _first_rule(self, name: str) -> tuple[int, Place] | None:
        """Returns the index of the first rule that matches a name, and the place to which it leads."""
        named = self._named.get(name)
        for index, rule in self._wide:
            if named is not None and named[0] < index:
                break
            if (place := rule.place(name)) is not None:
                return index, place
        return named

    def _first_name(self, place: Place) -> str | None:
        """Returns the clients' name of a topic: among the names that lead to it, the one of the first rule."""
        candidates = {place.topic, *(rule.prefix + place.topic for rule in self._stripping.get(place.route, ()))}
        if place in self._names:
            candidates.add(self._names[place])
        leading = ((self._first(name), name) for name in candidates if len(name) <= _LONGEST_NAME)
        return min(((found[0], name) for found, name in leading if found and found[1] == place), default=(0, None))[1]


class TopicsFactory(RouterFactory[TopicsConfig, Topics]):
    """The factory of routers of the type `topics`."""

    config = TopicsConfig
    decides = Decides.NAMES

    def mistakes(self, config: TopicsConfig, routes: Sequence[RouteName]) -> Iterator[ConfigMistake]:
        named: list[tuple[tuple[str | int, ...], RouteName]] = [(("default",), config.default)]
        for key in ("topics", "groups", "transactional_ids"):
            named += [((key, index, "route"), rule.route) for index, rule in enumerate(getattr(config, key))]
        for index, each in enumerate(config.concatenated):
            parts = enumerate(each.parts)
            named += [(("concatenated", index, "parts", place, "route"), part.route) for place, part in parts]
        yield from unknown_routes(named, routes)
        if not config.topics and not config.concatenated:
            yield ConfigMistake(("topics",), (), "at least one, or a concatenated topic")
        yield from _wrong_parts(config)
        yield from _twice(config)
        yield from _shadowed(config)

    def shares_clusters(self, config: TopicsConfig) -> bool:
        """Returns True if every rule is a prefix that is stripped, so that no topic has two names."""
        return not config.concatenated and all(
            isinstance(rule, RoutedPrefix) and rule.strip and rule.prefix for rule in config.topics
        )

    def initialize(self, context: FactoryContext, config: TopicsConfig) -> Topics:
        return Topics(config)

    def create_router(self, context: FactoryContext, shared: Topics) -> Topics:
        return shared


def _twice(config: TopicsConfig) -> Iterator[ConfigMistake]:
    names: dict[str, int] = {}
    places: dict[Place, int] = {}
    for index, rule in enumerate(config.topics):
        if isinstance(rule, NamedRule):
            if (first := names.setdefault(rule.name, index)) != index:
                yield ConfigMistake(("topics", index, "name"), rule.name, f"named once; topics[{first}] is the same")
                continue
            place = Place(rule.route, rule.topic or rule.name)
            if (first := places.setdefault(place, index)) != index:
                allowed = f"a topic of its own; topics[{first}] is {place.topic} of {place.route} too"
                yield ConfigMistake(("topics", index, "topic"), place.topic, allowed)


def _wrong_parts(config: TopicsConfig) -> Iterator[ConfigMistake]:
    names = {rule.name: f"topics[{index}]" for index, rule in enumerate(config.topics) if isinstance(rule, NamedRule)}
    places = {
        Place(rule.route, rule.topic or rule.name): f"topics[{index}]"
        for index, rule in enumerate(config.topics)
        if isinstance(rule, NamedRule)
    }
    for index, topic in enumerate(config.concatenated):
        at, here = ("concatenated", index), f"concatenated[{index}]"
        if (first := names.setdefault(topic.name, here)) != here:
            yield ConfigMistake((*at, "name"), topic.name, f"named once; {first} is the same")
        if not topic.parts:
            yield ConfigMistake((*at, "parts"), (), "at least one")
        routes: dict[RouteName, int] = {}
        for number, part in enumerate(topic.places()):
            path = (*at, "parts", number)
            if (earlier := routes.setdefault(part.route, number)) != number:
                yield ConfigMistake((*path, "route"), part.route, f"a route of its own; parts[{earlier}] has the same")
                continue
            place, here_too = Place(part.route, part.topic), f"{here}.parts[{number}]"
            if (first := places.setdefault(place, here_too)) != here_too:
                allowed = f"a topic of its own; {first} is {place.topic} of {place.route} too"
                yield ConfigMistake((*path, "topic"), place.topic, allowed)


def _shadowed(config: TopicsConfig) -> Iterator[ConfigMistake]:
    """Yields rules that can never match, because an earlier prefix matches all of their topics."""
    prefixes: list[tuple[int, str]] = []
    for index, rule in enumerate(config.topics):
        key, begins = _beginning(rule)
        for earlier, prefix in prefixes:
            if begins.startswith(prefix):
                allowed = f"a {key} that can match; topics[{earlier}] comes first and matches all of its topics"
                yield ConfigMistake(("topics", index, key), getattr(rule, key), allowed)
                break
        if isinstance(rule, RoutedPrefix):
            prefixes.append((index, rule.prefix))


def _beginning(rule: NamedRule | RoutedPrefix | PatternRule) -> tuple[str, str]:
    """Returns the key that a rule has, and the beginning of all names that it matches."""
    match rule:
        case NamedRule():
            return "name", rule.name
        case RoutedPrefix():
            return "prefix", rule.prefix
        case PatternRule():
            return "pattern", _WILDCARD.split(rule.pattern, maxsplit=1)[0]

"""The router `topics`: the union of its routes, by rules for names of topics, groups and transactional ids."""

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
from mesh.routing.spi import ConfigMistake, EntityRouter, FactoryContext, Place, RouterFactory

_LONGEST_NAME: Final = 249
_REMEMBERED: Final = 20_000
"""Names for which it is remembered what the rules say: as many as the topics of most clusters, and peers choose
them."""
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,249}")
_BY_NAME, _BY_PREFIX, _BY_PATTERN = "a topic by name", "topics by prefix", "topics by pattern"
_KINDS: Final = {"name": _BY_NAME, "prefix": _BY_PREFIX, "pattern": _BY_PATTERN}
"""How pydantic's error locations call the kinds of rules, by the key that tells them apart."""
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


class NamedRule(RuleModel):
    """One topic, of one route."""

    name: Topic = Field(description="What clients call the topic.")
    route: RouteName = Field(description="Name of the route.")
    topic: Topic | None = Field(default=None, description="What it is called there, if otherwise.")


class PrefixRule(RuleModel):
    """Topics whose names begin so."""

    prefix: Prefix = Field(description="How the names of the topics begin; an empty one takes all.")
    route: RouteName = Field(description="Name of the route.")
    strip: bool = Field(default=False, description="Whether they are called without it there.")


class PatternRule(RuleModel):
    """Topics whose names match, under their own names."""

    pattern: Pattern = Field(description="Pattern of topic names.")
    route: RouteName = Field(description="Name of the route.")


TopicRule = Annotated[
    Annotated[NamedRule, Tag(_BY_NAME)]
    | Annotated[PrefixRule, Tag(_BY_PREFIX)]
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


class TopicsConfig(RuleModel):
    topics: tuple[TopicRule, ...] = Field(description="Which route a topic belongs to: the first rule that matches.")
    groups: tuple[NameRule, ...] = Field(default=(), description="The home of groups.")
    transactional_ids: tuple[NameRule, ...] = Field(default=(), description="The home of transactions.")
    default: RouteName = Field(description="The home of what no rule names, and of cluster-wide requests.")


@dataclass(frozen=True, slots=True)
class _Wide:
    """A rule for many topics. strips: how much of a name goes. matches: names that clients use."""

    route: RouteName
    prefix: str
    strips: int
    matches: Callable[[str], bool]

    def place(self, name: str) -> Place | None:
        """The names `.` and `..` are none of a topic, nor is an empty one."""
        if not self.matches(name) or name[self.strips :] in ("", ".", ".."):
            return None
        return Place(self.route, name[self.strips :])


def _wide(rule: PrefixRule | PatternRule) -> _Wide:
    if isinstance(rule, PatternRule):
        return _Wide(rule.route, "", 0, matcher([rule.pattern]))
    return _Wide(rule.route, rule.prefix, len(rule.prefix) * rule.strip, lambda name: name.startswith(rule.prefix))


class Topics(EntityRouter):
    """The router of a TopicsConfig. The first rule that matches a name says whose it is; a topic that several names
    lead to has the first rule's."""

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

    def group(self, id: str) -> RouteName:
        return self._group(id)

    def transactional_id(self, id: str) -> RouteName:
        return self._transactional_id(id)

    def renames(self, route: RouteName) -> bool:
        return route in self._renamed

    def _first_rule(self, name: str) -> tuple[int, Place] | None:
        """The first rule that matches, by its index, and where it leads."""
        named = self._named.get(name)
        for index, rule in self._wide:
            if named is not None and named[0] < index:
                break
            if (place := rule.place(name)) is not None:
                return index, place
        return named

    def _first_name(self, place: Place) -> str | None:
        """What clients call a topic: of the names that lead to it, that of the first rule."""
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
        yield from unknown_routes(named, routes)
        if not config.topics:
            yield ConfigMistake(("topics",), (), "at least one")
        yield from _twice(config)
        yield from _shadowed(config)

    def shares_clusters(self, config: TopicsConfig) -> bool:
        """Where each topic of a route is told by its prefix, nothing has two names."""
        return all(isinstance(rule, PrefixRule) and rule.strip and rule.prefix for rule in config.topics)

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


def _shadowed(config: TopicsConfig) -> Iterator[ConfigMistake]:
    """Rules that can never match, since a prefix before them takes all that they name."""
    prefixes: list[tuple[int, str]] = []
    for index, rule in enumerate(config.topics):
        key, begins = _beginning(rule)
        for earlier, prefix in prefixes:
            if begins.startswith(prefix):
                allowed = f"a {key} that can match; topics[{earlier}] comes first and takes all of its topics"
                yield ConfigMistake(("topics", index, key), getattr(rule, key), allowed)
                break
        if isinstance(rule, PrefixRule):
            prefixes.append((index, rule.prefix))


def _beginning(rule: NamedRule | PrefixRule | PatternRule) -> tuple[str, str]:
    """The key of a rule, and how all names begin that it matches."""
    match rule:
        case NamedRule():
            return "name", rule.name
        case PrefixRule():
            return "prefix", rule.prefix
        case PatternRule():
            return "pattern", _WILDCARD.split(rule.pattern, maxsplit=1)[0]

"""Rules and patterns that several types of routers share."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from mesh.routing.names import RouteName
from mesh.routing.spi import ConfigMistake

_CLOSED: Final = re.compile(r"(?:[^\[]|\[!?+\]?+[^\]]*\])*")


class RuleModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _check_pattern(pattern: str) -> str:
    if not 0 < len(pattern) <= 255 or _CLOSED.fullmatch(pattern) is None:
        allowed = "a pattern of 1 to 255 characters with * ? and [ab] in it; write a literal [ as [[]"
        raise PydanticCustomError("pattern", "{allowed}", {"allowed": allowed})
    return pattern


Pattern = Annotated[str, AfterValidator(_check_pattern)]
"""A shell pattern that matches a whole name; upper and lower case differ."""


class NameRule(RuleModel):
    """A rule that sends all names that match a pattern to one route."""

    pattern: Pattern = Field(description="Pattern of names.")
    route: RouteName = Field(description="Name of the route.")


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Returns a function that checks whether a name matches any of these patterns."""
    match = re.compile("|".join(map(fnmatch.translate, patterns))).match
    return lambda name: match(name) is not None


def first_route(rules: Sequence[NameRule], default: RouteName) -> Callable[[str], RouteName]:
    """Returns a function from a name to the route of the first rule that matches."""
    compiled = [(matcher([rule.pattern]), rule.route) for rule in rules]
    return lambda name: next((route for matches, route in compiled if matches(name)), default)


def unknown_routes(
    named: Iterable[tuple[tuple[str | int, ...], RouteName]], routes: Sequence[RouteName]
) -> Iterator[ConfigMistake]:
    """Yields a mistake for each route that a router does not have. named: the routes in the config, each after its
    place there. routes: the routes of the router."""
    allowed = f"one of the routes of this router: {', '.join(sorted(routes))}"
    for path, route in named:
        if route not in routes:
            yield ConfigMistake(path, route, allowed)

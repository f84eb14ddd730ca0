"""What the rules of the routers that ship are made of."""

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
        allowed = "a pattern of 1 to 255 characters with * ? and [ab] in it; a [ that is meant itself is written [[]"
        raise PydanticCustomError("pattern", "{allowed}", {"allowed": allowed})
    return pattern


Pattern = Annotated[str, AfterValidator(_check_pattern)]
"""As the shell's: matched as a whole, upper and lower case differ."""


class NameRule(RuleModel):
    """All names that match a pattern, to one route."""

    pattern: Pattern = Field(description="Pattern of names.")
    route: RouteName = Field(description="Name of the route.")


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether a name matches one of these patterns."""
    match = re.compile("|".join(map(fnmatch.translate, patterns))).match
    return lambda name: match(name) is not None


def first_route(rules: Sequence[NameRule], default: RouteName) -> Callable[[str], RouteName]:
    """The route of the first rule that a name matches."""
    compiled = [(matcher([rule.pattern]), rule.route) for rule in rules]
    return lambda name: next((route for matches, route in compiled if matches(name)), default)


def unknown_routes(
    named: Iterable[tuple[tuple[str | int, ...], RouteName]], routes: Sequence[RouteName]
) -> Iterator[ConfigMistake]:
    """named: routes with where they stand. routes: that the router has."""
    allowed = f"one of the routes of this router: {', '.join(sorted(routes))}"
    for path, route in named:
        if route not in routes:
            yield ConfigMistake(path, route, allowed)

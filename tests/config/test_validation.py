"""The allowed values that a mistake names when a foreign model refuses a value, and its place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Discriminator, Field, Tag, ValidationError

from mesh.config.mistakes import KeyPath
from mesh.config.validation import allowed_by, keys_in, value_at


class Cat(BaseModel, extra="forbid"):
    name: str = Field(description="What it listens to.")


class Dog(BaseModel, extra="forbid"):
    name: str
    legs: int = Field(alias="feet", default=4, description="How many.")


class Zoo(BaseModel, extra="forbid"):
    members: list[
        Annotated[
            Annotated[Cat, Tag("a cat")] | Annotated[Dog, Tag("a dog")],
            Discriminator(lambda value: "a dog" if isinstance(value, dict) and "feet" in value else "a cat"),
        ]
    ] = []
    groups: dict[str, Dog] = {}
    open: Literal["yes", "no"] = Field(default="yes", description="Whether.")
    plain: Cat | int = 1
    topics: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1, max_length=2)] = ("a",)
    weight: Annotated[float, Field(ge=1.5, lt=4)] = 2
    is_known: bool = False
    map: Path | None = None
    labels: dict[str, Annotated[str, Field(min_length=3, max_length=4)]] = {}


@pytest.mark.parametrize(
    ("data", "path", "value", "allowed"),
    [
        ({"members": [{}]}, ("members", 0, "name"), "(by default)", "required: What it listens to."),
        (
            {"members": [{"name": "a"}, {"name": "b", "x": 1}]},
            ("members", 1, "x"),
            1,
            "unknown key; the keys here are name",
        ),
        (
            {"members": [{"name": "b", "feet": 4, "x": 1}]},
            ("members", 0, "x"),
            1,
            "unknown key; the keys here are name, feet",
        ),
        ({"members": [5]}, ("members", 0), 5, "a mapping with the keys name"),
        ({"members": 5}, ("members",), 5, "a list"),
        ({"groups": {"one": 5}}, ("groups", "one"), 5, "a mapping with the keys name, feet"),
        ({"groups": {"one": {"name": "a", "feet": "x"}}}, ("groups", "one", "feet"), "x", "a whole number"),
        (
            {"groups": {"one": {"name": 5}}},
            ("groups", "one", "name"),
            5,
            "a text; put quotes around what looks like a number",
        ),
        ({"open": "perhaps"}, ("open",), "perhaps", "'yes' or 'no'"),
        ({"weight": "much"}, ("weight",), "much", "a number"),
        ({"weight": 0.5}, ("weight",), 0.5, "at least 1.5"),
        ({"weight": 4}, ("weight",), 4, "less than 4"),
        ({"is_known": "perhaps"}, ("is_known",), "perhaps", "true or false"),
        ({"map": 5}, ("map",), 5, "the path of a file"),
        (
            {"x": 1},
            ("x",),
            1,
            "unknown key; the keys here are members, groups, open, plain, topics, ",
        ),
        ({"groups": {"one": {}}}, ("groups", "one", "name"), "(by default)", "required"),
        ({"plain": {"nam": "a"}}, ("plain", "name"), "(by default)", "required: What it listens to."),
        (5, (), 5, "a mapping with the keys members"),
        ({"topics": []}, ("topics",), [], "at least one"),
        ({"topics": list("abc")}, ("topics",), list("abc"), "at most 2 entries"),
        ({"topics": [""]}, ("topics", 0), "", "a text that is not empty"),
        ({"labels": {"a": "xy"}}, ("labels", "a"), "xy", "at least 3 characters"),
        ({"labels": {"a": "abcde"}}, ("labels", "a"), "abcde", "at most 4 characters"),
    ],
)
def test_a_value_that_is_refused(data: object, path: KeyPath, value: object, allowed: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Zoo.model_validate(data)
    details = caught.value.errors(include_url=False)[0]
    assert keys_in(data, details) == path
    assert value_at(data, path) == value
    assert allowed_by(Zoo, details).startswith(allowed)

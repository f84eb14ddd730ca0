"""Turns pydantic's errors into messages that name the allowed values."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, Tag
from pydantic_core import ErrorDetails

from mesh.config.mistakes import KeyPath


def allowed_by(root: type[BaseModel], details: ErrorDetails) -> str:
    """Returns the allowed values at the place of a validation error. root: the model that was validated."""
    location = details["loc"]
    match details["type"]:
        case "missing":
            return ": ".join(filter(None, ("required", _description(root, location))))
        case "extra_forbidden":
            return f"unknown key; the keys here are {', '.join(_keys(root, location[:-1]))}"
        case "model_type" | "dict_type":
            keys = _keys(root, location)
            return "a mapping" + (f" with the keys {', '.join(keys)}" if keys else "")
        case "tuple_type" | "list_type":
            return "a list"
        case "string_type":
            return "a text; put quotes around what looks like a number or a boolean"
        case "string_too_short" | "string_too_long" | "too_short" | "too_long":
            return _allowed_length(details["ctx"])
        case "int_type" | "int_parsing" | "int_parsing_size" | "int_from_float":
            return "a whole number"
        case "float_type" | "float_parsing" | "finite_number":
            return "a number"
        case "bool_type" | "bool_parsing":
            return "true or false"
        case "path_type":
            return "the path of a file"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            return _allowed_number(details["type"], details["ctx"])
    return details["msg"].removeprefix("Input should be ")


def _allowed_number(bound: str, context: Mapping[str, Any]) -> str:
    words = {"greater_than": "more than", "greater_than_equal": "at least", "less_than": "less than"}
    (limit,) = context.values()
    return f"{words.get(bound, 'at most')} {int(limit) if limit == int(limit) else limit}"


def _allowed_length(bounds: Mapping[str, Any]) -> str:
    """Returns the allowed length as text. bounds: pydantic's `min_length` and `max_length`, with `field_type` for
    containers."""
    what = "entries" if "field_type" in bounds else "characters"
    if "max_length" in bounds:
        return f"at most {bounds['max_length']} {what}"
    if bounds["min_length"] > 1:
        return f"at least {bounds['min_length']} {what}"
    return "at least one" if what == "entries" else "a text that is not empty"


def keys_in(data: object, details: ErrorDetails) -> KeyPath:
    """Returns the path of an error in the data, without the names that pydantic gives to the kinds of unions."""
    *ancestors, last = details["loc"] or (None,)
    path: KeyPath = ()
    here: Any = data
    for part in ancestors:
        if _has(here, part):
            path, here = (*path, part), here[part]
    if last is not None and (_has(here, last) or details["type"] == "missing"):
        path = (*path, last)
    return path


def value_at(data: Any, path: KeyPath) -> object:
    for part in path:
        if not _has(data, part):
            return "(by default)"
        data = data[part]
    return data


def _has(container: object, part: str | int) -> bool:
    match container:
        case dict():
            return part in container
        case list() | tuple():
            return isinstance(part, int) and part < len(container)
    return False


def _keys(root: type[BaseModel], location: KeyPath) -> list[str]:
    models = list(_models_in(_annotation_at(root, location)))
    return [field.alias or name for model in models[:1] for name, field in model.model_fields.items()]


def _description(root: type[BaseModel], location: KeyPath) -> str:
    for model in _models_in(_annotation_at(root, location[:-1])):
        for name, field in model.model_fields.items():
            if location[-1] == (field.alias or name):
                return field.description or ""
    return ""


def _annotation_at(root: type[BaseModel], location: KeyPath) -> Any:
    """Returns the type at one of pydantic's error locations."""
    annotation: Any = root
    for part in location:
        if isinstance(part, str):
            kind = _tagged(annotation, part) or _named(annotation, part)
            annotation = kind or _field(annotation, part) or _of_a_mapping(annotation)
    return annotation


def _tagged(annotation: Any, tag: str) -> Any:
    """Returns the kind of a tagged union that has this tag; None if there is none."""
    if any(isinstance(each, Tag) and each.tag == tag for each in getattr(annotation, "__metadata__", ())):
        return typing.get_args(annotation)[0]
    found = (_tagged(each, tag) for each in typing.get_args(annotation))
    return next((each for each in found if each is not None), None)


def _named(annotation: Any, name: str) -> Any:
    """Returns the model of this name in a union without tags, whose kinds pydantic tries in turn; None if there is
    none."""
    return next((each for each in _models_in(annotation) if each.__name__ == name), None)


def _field(annotation: Any, key: str) -> Any:
    for model in _models_in(annotation):
        for name, field in model.model_fields.items():
            if key == (field.alias or name):
                return field.annotation
    return None


def _of_a_mapping(annotation: Any) -> Any:
    """Returns the type of the values of a mapping with free keys."""
    return typing.get_args(annotation)[1] if typing.get_origin(annotation) is dict else None


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)

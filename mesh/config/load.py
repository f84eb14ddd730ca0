"""From a file to a `Config`, or to the list of all that is wrong with it."""

from __future__ import annotations

import os
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mesh.config.base import Model
from mesh.config.checks import check
from mesh.config.mistakes import ConfigurationError, KeyPath, Mistake, is_within
from mesh.config.model import KINDS, Config
from mesh.config.partial import PartialConfig, is_of_its_own, path_of
from mesh.config.yaml_reading import Document, read


def load(path: Path, variables: Mapping[str, str] = os.environ) -> Config:
    """The configuration in a file. ConfigurationError with every mistake in it, also if it cannot be read."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigurationError([Mistake((), str(path), error.strerror or str(error))]) from None
    document = read(text, variables)
    mistakes = [*document.mistakes, *_wrong_values(document)]
    mistakes += _wrong_together(document, mistakes)
    if mistakes:
        raise ConfigurationError(mistakes)
    return Config.model_validate(document.data, context=document.environment)


def _wrong_values(document: Document) -> Iterator[Mistake]:
    try:
        Config.model_validate(document.data)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            path = path_of(details)
            if is_of_its_own(details) and not any(is_within(path, each.path) for each in document.mistakes):
                yield _mistake(details, path, document)


def _wrong_together(document: Document, mistakes: list[Mistake]) -> Iterator[Mistake]:
    partial = PartialConfig(document.data)
    if partial.config is None:
        return
    wrong = [each.path for each in mistakes]
    for finding in check(partial.config, _cluster_names(document.data, wrong)):
        path, *others = map(partial.original, (finding.path, *finding.others))
        if not any(
            is_within(each, looked_at) or is_within(looked_at, each) for each in wrong for looked_at in (path, *others)
        ):
            yield Mistake(
                path, document.environment.show(path, finding.value), document.environment.hide(finding.allowed)
            )


def _cluster_names(data: Any, wrong: list[KeyPath]) -> frozenset[str] | None:
    if any(path[:1] == ("clusters",) and (len(path) < 3 or path[2] == "name") for path in wrong):
        return None
    return frozenset(cluster["name"] for cluster in data["clusters"])


def _mistake(details: ErrorDetails, path: KeyPath, document: Document) -> Mistake:
    value = document.environment.show(path, _value_at(document.data, path))
    match details["type"]:
        case "missing":
            return Mistake(path, "(missing)", f"required: {_description(details)}")
        case "extra_forbidden":
            return Mistake(path, value, f"unknown key; the keys here are {', '.join(_keys(details['loc'][:-1]))}")
        case "model_type" | "dict_type":
            keys = _keys(details["loc"])
            return Mistake(path, value, "a mapping" + (f" with the keys {', '.join(keys)}" if keys else ""))
        case "tuple_type":
            return Mistake(path, value, "a list")
        case "string_type":
            return Mistake(path, value, "a text; what looks like a number or a truth value stands in quotes")
    return Mistake(path, value, document.environment.hide(details["msg"].removeprefix("Input should be ")))


def _value_at(data: Any, path: KeyPath) -> object:
    for part in path:
        if isinstance(data, dict) and part not in data:
            return "(by default)"
        data = data[part]
    return data


def _keys(location: KeyPath) -> list[str]:
    return [field.alias or name for model in _models_at(location)[:1] for name, field in model.model_fields.items()]


def _description(details: ErrorDetails) -> str:
    key = details["loc"][-1]
    for model in _models_at(details["loc"][:-1]):
        for name, field in model.model_fields.items():
            if key == (field.alias or name):
                return field.description or ""
    return ""


def _models_at(location: KeyPath) -> list[type[Model]]:
    """The models that the value at one of pydantic's error locations may be of."""
    models: list[type[Model]] = [Config]
    for part in location:
        if part in KINDS:
            models = [KINDS[str(part)]]
        elif isinstance(part, str):
            fields = [(field.alias or name, field) for model in models for name, field in model.model_fields.items()]
            models = [each for key, field in fields if key == part for each in _models_in(field.annotation)]
    return models


def _models_in(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)

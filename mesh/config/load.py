"""Reads a file into a `Config`, or into a list of its mistakes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mesh.config.checks import check
from mesh.config.mistakes import ConfigurationError, KeyPath, Mistake, is_within
from mesh.config.model import Config
from mesh.config.partial import PartialConfig, is_of_its_own, path_of
from mesh.config.validation import allowed_by, value_at
from mesh.config.yaml_reading import Document, read
from mesh.files import read_file, shown_name


def load(
    path: Path, variables: Mapping[str, str] = os.environ, read_bytes: Callable[[Path], bytes] = read_file
) -> Config:
    """Returns the configuration in a file. Raises ConfigurationError with every mistake in it, also if it cannot be
    read. read_bytes: returns the content of the file."""
    try:
        text = read_bytes(path)
    except OSError as error:
        raise ConfigurationError([Mistake((), shown_name(path), error.strerror or str(error))]) from None
    document = read(text, variables, read_bytes)
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
    is_missing = details["type"] == "missing"
    value = "(missing)" if is_missing else document.environment.show(path, value_at(document.data, path))
    return Mistake(path, value, document.environment.hide(allowed_by(Config, details)))

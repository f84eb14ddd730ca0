"""What may not be shown: values that came from the environment, and properties named like a secret.

A value from the environment is shown as it stands in the file, `${NAME}`; whatever else happens to contain it has it
replaced by `${NAME}` too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mesh.config.mistakes import KeyPath, show

HIDDEN: Final = "***"
_SECRET: Final = re.compile(r"password|secret|token|scram_|key(?!\.location|_file)|^sasl\.oauthbearer\.", re.IGNORECASE)
_SHORTEST: Final = 4
"""Shorter values from the environment are not looked for inside of other texts: they are everywhere."""


def is_secret_name(name: str) -> bool:
    """Whether a property of that name is never shown."""
    return _SECRET.search(name) is not None


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment contributed to a configuration.

    variables: the values used, by name. templates: the texts of the file that named them, by where they stand.
    """

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    templates: Mapping[KeyPath, str] = field(default_factory=dict)

    def hide(self, text: str) -> str:
        """The text without any value from the environment."""
        for name, value in sorted(self.variables.items(), key=lambda item: -len(item[1])):
            if len(value) >= _SHORTEST:
                text = text.replace(value, f"${{{name}}}")
        return text

    def show(self, path: KeyPath, value: object) -> str:
        """A value of the configuration, for a message."""
        if isinstance(value, dict | list | tuple):
            return show(value)
        shown = self.redact(value, path)
        return HIDDEN if shown == HIDDEN else show(shown)

    def redact(self, value: Any, path: KeyPath = ()) -> Any:
        """A copy of a part of the configuration, made of dicts, lists and scalars, that may be shown."""
        if path and isinstance(path[-1], str) and value is not None and is_secret_name(path[-1]):
            return HIDDEN
        if path in self.templates:
            return self.templates[path]
        match value:
            case dict():
                return {key: self.redact(each, (*path, key)) for key, each in value.items()}
            case list():
                return [self.redact(each, (*path, index)) for index, each in enumerate(value)]
            case str():
                return self.hide(value)
            case _:
                return value

"""The secrets of a configuration, which are never shown: values from the environment, and properties whose names mean
secrets.

A value from the environment is shown as in the file, `${NAME}`. In other texts that contain the value, `${NAME}`
replaces it.
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
"""The shortest value from the environment that is searched for in other texts. Shorter ones occur everywhere."""


def is_secret_name(name: str) -> bool:
    """Returns whether values of a property with this name are never shown."""
    return _SECRET.search(name) is not None


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment variables that a configuration uses.

    variables: their values, by name. templates: the texts of the file that refer to them, by their path.
    """

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    templates: Mapping[KeyPath, str] = field(default_factory=dict)

    def hide(self, text: str) -> str:
        """Returns the text without any value from the environment."""
        for name, value in sorted(self.variables.items(), key=lambda item: -len(item[1])):
            if len(value) >= _SHORTEST:
                text = text.replace(value, f"${{{name}}}")
        return text

    def show(self, path: KeyPath, value: object) -> str:
        """Returns a value of the configuration as text for a message."""
        if isinstance(value, dict | list | tuple):
            return show(value)
        shown = self.redact(value, path)
        return HIDDEN if shown == HIDDEN else show(shown)

    def redact(self, value: Any, path: KeyPath = ()) -> Any:
        """Returns a copy of a part of the configuration, made of dicts, lists and scalars, that may be shown."""
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

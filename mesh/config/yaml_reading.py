"""Reads a YAML file as plain data: safe YAML without repeated keys, with `${NAME}` filled in from the environment, and
`${file:PATH}` from files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from mesh.config.mistakes import ConfigurationError, KeyPath, Mistake, show
from mesh.config.secrets import HIDDEN, Environment, is_secret_name
from mesh.files import read_file

_MERGE: Final = "tag:yaml.org,2002:merge"
_QUOTED: Final = re.compile(r"'([^']*)'")
_HARMLESS: Final = re.compile(r"(?s:.?)|<[a-z ]+>")
"""Names that messages may quote: single characters, and the library's names of tokens."""
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|(file:[^}]+)\})?")
_FILE: Final = "file:"


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file after reading. data: dicts, lists and scalars. mistakes: those of reading alone; the wrong parts are
    still in `data`."""

    data: object
    environment: Environment
    mistakes: tuple[Mistake, ...]


def read(text: bytes, variables: Mapping[str, str], read_bytes: Callable[[Path], bytes] = read_file) -> Document:
    """Reads a YAML document. Raises ConfigurationError if the text is not one. read_bytes: returns the content of a
    file."""
    try:
        loader = yaml.SafeLoader(text)
        reader = _Reader(loader, variables, read_bytes)
        root = loader.get_single_node()
        data = reader.value(root, ()) if root is not None else {}
    except yaml.YAMLError as error:
        raise ConfigurationError([Mistake((), _problem(error, text), _allowed(error, text))]) from None
    except RecursionError:
        raise ConfigurationError(
            [Mistake((), "", "YAML that neither contains itself nor is nested too deep")]
        ) from None
    except (ValueError, OverflowError):  # the library fails at numbers that are too large, such as escapes
        raise ConfigurationError([Mistake((), "", "a YAML document, without numbers that are too large")]) from None
    return Document(data, Environment(reader.used, reader.templates), tuple(reader.mistakes))


class _Reader:
    def __init__(
        self, loader: yaml.SafeLoader, variables: Mapping[str, str], read_bytes: Callable[[Path], bytes]
    ) -> None:
        self._loader = loader
        self._variables = variables
        self._read_bytes = read_bytes
        self.used: dict[str, str] = {}
        self.templates: dict[KeyPath, str] = {}
        self.mistakes: list[Mistake] = []

    def value(self, node: yaml.Node, path: KeyPath) -> object:
        match node:
            case yaml.MappingNode():
                return self._mapping(node, path)
            case yaml.SequenceNode():
                return [self.value(child, (*path, index)) for index, child in enumerate(node.value)]
            case _:
                return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        own: dict[str, object] = {}
        merged: dict[str, object] = {}
        for key_node, child in node.value:
            if key_node.tag == _MERGE:
                for each in _merged(child):
                    merged = {**self._mapping(each, path), **merged}
                continue
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            line = f"line {key_node.start_mark.line + 1}"
            if not _is_text(key_node):
                self.mistakes.append(Mistake((*path, key), line, "keys are texts"))
            elif key in own:
                self.mistakes.append(Mistake((*path, key), line, "this key stands here a second time"))
            own[key] = self.value(child, (*path, key))
        return {**merged, **own}

    def _scalar(self, node: yaml.Node, path: KeyPath) -> object:
        try:
            value = self._loader.construct_object(node, deep=True)  # else some types are checked later
        except Exception:  # noqa: BLE001 - the library raises whatever its conversions do
            value = None
            self.mistakes.append(Mistake(path, f"line {node.start_mark.line + 1}", "a plain YAML value, without a tag"))
        return self._filled_in(value, path) if isinstance(value, str) else value

    def _filled_in(self, text: str, path: KeyPath) -> str:
        found: dict[str, str] = {}

        def replacement(match: re.Match[str]) -> str:
            name, default, file = match.group(1, 2, 3)
            if match.group() == "$${":
                return "${"
            shown = HIDDEN if path and is_secret_name(str(path[-1])) else show(text)
            if file is not None:
                content = self._content(file.removeprefix(_FILE), Mistake(path, shown, ""))
                return found.setdefault(file, content) if content else ""
            if name is None:
                allowed = "${NAME}, ${NAME:-default} or ${file:PATH}; write a literal ${ as $${"
                self.mistakes.append(Mistake(path, shown, allowed))
                return match.group()
            value = self._variables.get(name)
            if value or (value is not None and default is None):
                return found.setdefault(name, value)
            if default is None:
                allowed = f"set {name} in the environment, or give a default: ${{{name}:-...}}"
                self.mistakes.append(Mistake(path, shown, allowed))
            return default or ""

        filled_in = _REFERENCE.sub(replacement, text)
        if found:
            self.templates[path] = text
            self.used.update(found)
        return filled_in

    def _content(self, file: str, about: Mistake) -> str:
        """Returns the content of a file without the end of its last line; "" and a mistake if it cannot be read."""
        try:
            return self._read_bytes(Path(file)).decode().removesuffix("\n").removesuffix("\r")
        except (OSError, ValueError) as problem:
            reason = problem.strerror or str(problem) if isinstance(problem, OSError) else "no text in UTF-8"
            self.mistakes.append(replace(about, allowed=f"a file that can be read; {file}: {reason}"))
            return ""


def _is_text(key: yaml.Node) -> bool:
    """Returns whether a key is a text. YAML 1.1 reads `on` as true, but it is one of our keys."""
    return isinstance(key, yaml.ScalarNode) and (key.tag == "tag:yaml.org,2002:str" or key.value == "on")


def _merged(node: yaml.Node) -> Iterator[yaml.MappingNode]:
    for each in node.value if isinstance(node, yaml.SequenceNode) else [node]:
        if not isinstance(each, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(problem="<< takes a mapping", problem_mark=each.start_mark)
        yield each


def _problem(error: yaml.YAMLError, text: bytes) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count(b"\n", 0, error.position) + 1
        return f"line {line}: {error.reason}"
    # The library's own text quotes the file, perhaps with a secret: for YAML an unquoted password that begins with * is
    # an unknown alias.
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return where + _QUOTED.sub(lambda found: found[0] if _HARMLESS.fullmatch(found[1]) else "'...'", problem)


def _allowed(error: yaml.YAMLError, text: bytes) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return "a YAML document in UTF-8"
    mark = getattr(error, "problem_mark", None)
    lines = text.splitlines()
    if mark is not None and mark.line < len(lines) and b"${" in lines[mark.line]:
        return 'a YAML document; inside {} or [] put quotes around a variable: "${NAME}"'
    return "a YAML document"

"""docs/configuration.md and the models say the same: every key, its default, and nothing else."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter

from mesh.config import Address, Config, VirtualClusterConfig
from mesh.config.base import Model
from mesh.config.listeners import ListenerConfig
from mesh.config.pool import NamedTopic, PrefixRuleConfig
from mesh.config.routers import ToPoolConfig

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"
Table = dict[str, str]

_SUFFIXES: dict[type[Model], str] = {NamedTopic: " by name", PrefixRuleConfig: " by prefix"}


def documented() -> dict[str, Table]:
    """The tables of the document, by section: keys, and their defaults."""
    sections: dict[str, Table] = {}
    table: Table = {}
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ").replace("`", "")
            table = sections["" if heading == "The file" else heading] = {}
        elif row := re.fullmatch(r"\| `(\w+)` \| (.+?) \| (.*?) ?\| (.+) \|", line):
            assert row[1] not in table, f"{row[1]} stands twice"
            table[row[1]] = row[3]
    return sections


def modelled(model: type[Model] = Config, path: str = "") -> dict[str, Table]:
    """The same tables, made from the models."""
    sections = {
        path + _SUFFIXES.get(model, ""): {f.alias or n: default(model, n) for n, f in model.model_fields.items()}
    }
    if model is ToPoolConfig:
        return sections  # most keys of a pool are documented there
    for name, field in model.model_fields.items():
        inner = f"{path}.{field.alias or name}".lstrip(".")
        for each in models_in(field.annotation):
            if model is ListenerConfig:
                continue  # its sections are those of its virtual cluster
            section_of = inner + ("[]" if typing.get_origin(field.annotation) is tuple else "")
            for section, keys in modelled(each, section_of).items():
                sections[section] = sections.get(section, {}) | keys  # kinds of target share a section
    return sections


def default(model: type[Model], name: str) -> str:
    field = model.model_fields[name]
    if field.is_required():
        return "required"
    if model is VirtualClusterConfig and name == "coordinator":
        assert str(VirtualClusterConfig.model_construct(listen=Address("h", 7)).coordinator) == "h:8"
        return "next port after `listen`"
    if isinstance(field.default, Model):
        return ""
    if field.default is None:
        return "none"
    if field.default == ():
        return "`[]`"
    whole: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    written = TypeAdapter(whole).dump_python(
        field.get_default(call_default_factory=True, validated_data={}), mode="json"
    )
    if isinstance(written, bool):
        written = str(written).lower()
    return f"`{written}`" if written != "" else '`""`'


def models_in(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from models_in(argument)


def test_the_document_has_every_key_and_no_other() -> None:
    assert documented() == modelled()


def test_every_key_has_a_description() -> None:
    def walk(model: type[Model]) -> Iterator[str]:
        for name, field in model.model_fields.items():
            if not field.description:
                yield f"{model.__name__}.{name}"
            for each in models_in(field.annotation):
                yield from walk(each)

    assert not list(walk(Config))

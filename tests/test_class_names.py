"""One name for one thing: no two classes of mesh/ have the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

INTERFACES = {"Owner"}
"""Names of a class and of the interface that it implements."""


def test_class_names_are_unique() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(Path("mesh").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1 and name not in INTERFACES} == {}

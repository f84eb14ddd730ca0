"""The objects that Kubernetes accepts."""

from __future__ import annotations

import importlib
from typing import Any


def kubernetes_validate() -> Any:
    """The module, imported late: the import takes seconds, which only tests that use it should spend."""
    return importlib.import_module("kubernetes_validate")

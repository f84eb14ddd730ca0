"""Warnings about a valid configuration. `check` and the start report them, and go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mesh.config.mistakes import KeyPath, format_path
from mesh.config.model import Config
from mesh.security.sasl import Mechanism

_IN_THE_CLEAR = {Mechanism.PLAIN: "passwords", Mechanism.OAUTHBEARER: "tokens"}


@dataclass(frozen=True, slots=True)
class Warning:
    path: KeyPath
    text: str

    def __str__(self) -> str:
        return f"{format_path(self.path)}: {self.text}"


def warnings_of(config: Config) -> Iterator[Warning]:
    for index, each in enumerate(config.virtual_clusters):
        if each.sasl is None or all(listener.tls is not None for listener in each.all_listeners()):
            continue
        for mechanism in each.sasl.mechanisms:
            if mechanism in _IN_THE_CLEAR:
                what = _IN_THE_CLEAR[mechanism]
                text = f"{mechanism.value} without tls: clients send their {what} in the clear; set `tls`, or use SCRAM"
                yield Warning(("virtual_clusters", index, "sasl", "mechanisms"), text)

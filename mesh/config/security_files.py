"""The mistakes in the users and rules that a configuration has in files of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from mesh.config.mistakes import ConfigurationError, KeyPath, Mistake
from mesh.config.model import Config
from mesh.config.security.files import load_rules, load_users


def mistakes_in_files(config: Config) -> Iterator[Mistake]:
    """Yields the mistakes in each `users_file` and `rules_file`. Files that cannot be read are passed over: the files
    of the machine that runs the configuration may not be here."""
    for index, virtual_cluster in enumerate(config.virtual_clusters):
        at: KeyPath = ("virtual_clusters", index)
        if virtual_cluster.sasl is not None:
            yield from _mistakes(virtual_cluster.sasl.users_file, load_users, (*at, "sasl", "users_file"))
        if virtual_cluster.authorization is not None:
            rules_file = virtual_cluster.authorization.rules_file
            yield from _mistakes(rules_file, load_rules, (*at, "authorization", "rules_file"))


def _mistakes(file: str | None, load: Callable[[Path], object], at: KeyPath) -> Iterator[Mistake]:
    if file is None:
        return
    try:
        load(Path(file))
    except ConfigurationError as error:
        for each in error.mistakes:
            yield Mistake((*at, *each.path), each.value, each.allowed)
    except OSError:
        pass

"""The principal of a client, in Kafka's words: `User:NAME`."""

from __future__ import annotations

from typing import Final, NewType

Principal = NewType("Principal", str)
"""TYPE:NAME, like KafkaPrincipal.toString(). Clients that authenticate have the type User."""

ANONYMOUS: Final = Principal("User:ANONYMOUS")
"""Kafka's name for a client that did not authenticate."""
EVERYBODY: Final = Principal("User:*")
"""The name of any principal of the type User in a rule."""


def user(name: str) -> Principal:
    """Returns the principal of a user name, or of the name from a certificate."""
    return Principal(f"User:{name}")

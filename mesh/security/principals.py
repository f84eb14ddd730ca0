"""Who a client is, in Kafka's words: `User:NAME`."""

from __future__ import annotations

from typing import Final, NewType

Principal = NewType("Principal", str)
"""TYPE:NAME, as in Kafka's KafkaPrincipal.toString(). Clients that authenticate are of the type User."""

ANONYMOUS: Final = Principal("User:ANONYMOUS")
"""Kafka's name for whoever did not authenticate."""
EVERYBODY: Final = Principal("User:*")
"""In a rule: any principal of the type User."""


def user(name: str) -> Principal:
    """The principal that a user name, or the name a certificate is mapped to, stands for."""
    return Principal(f"User:{name}")

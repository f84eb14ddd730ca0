"""Tokens in a file that another program, such as a kubelet or an agent, keeps up to date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mesh.files import read_file
from mesh.security.oauthbearer_client import Token, TokenRefused, token_of

LARGEST: Final = 1 << 18
"""The most bytes of a file."""


def fetch(path: str, extensions: Mapping[str, str]) -> Token:
    """Returns the token in a file: a JWT with `exp`. Raises TokenRefused, OSError or ValueError."""
    text = read_file(path, LARGEST)
    try:
        return token_of(text.decode(errors="replace").strip(), None, extensions)
    except TokenRefused as problem:
        raise TokenRefused(f"{path}: {problem}") from None

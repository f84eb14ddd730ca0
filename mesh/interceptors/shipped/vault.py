"""The transit engine of a HashiCorp Vault, over its HTTP API:
https://developer.hashicorp.com/vault/api-docs/secret/transit.

`POST /v1/MOUNT/datakey/plaintext/KEY` makes a data key, in clear and encrypted; `POST /v1/MOUNT/decrypt/KEY` decrypts
one. The key itself never leaves the Vault. The Vault rotates it, and refuses clients that may no longer read.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from mesh import files
from mesh.interceptors.shipped.files import read_file
from mesh.interceptors.spi import CannotBegin, NoConfig

_LARGEST: Final = 1 << 20
_BAD_REQUEST: Final = 400
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")


def _check_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise PydanticCustomError("vault", "the URL of a Vault: https://HOST:PORT, or http for tests")
    return url.rstrip("/")


def _check_name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise PydanticCustomError(
            "vault", "letters, digits, underscores, dots and hyphens, in parts with / between them"
        )
    return name


_Name = Annotated[str, AfterValidator(_check_name)]


class VaultConfig(NoConfig):
    """The configuration of a Vault. url and key are required. token_file is read for each request, so that an agent may
    renew it."""

    url: Annotated[str, AfterValidator(_check_url)] = Field(description="URL of the Vault.")
    key: _Name = Field(description="Name of a key of the transit engine.")
    token_file: Path = Field(description="A file with a token, as an agent of the Vault keeps it.")
    mount: _Name = Field(default="transit", description="Where the transit engine is mounted.")
    namespace: str | None = Field(default=None, description="The namespace, of Vault Enterprise.")
    ca_file: Path | None = Field(default=None, description="Authorities that sign the Vault's certificate.")
    timeout: Annotated[float, Field(gt=0, le=60)] = Field(default=2.0, description="Seconds to wait for the Vault.")


class VaultRefused(Exception):
    """Raised when the Vault refuses a request, with the reason."""


class Vault:
    """One key of the transit engine of a Vault."""

    def __init__(self, config: VaultConfig) -> None:
        """Raises CannotBegin."""
        read_file("vault.token_file", config.token_file)
        self._config: Final = config
        self._trusted: Final = _trusted(config)

    def data_key(self) -> tuple[bytes, str]:
        """Returns a new data key, in clear and encrypted. Raises OSError and VaultRefused."""
        answer = self._ask(f"datakey/plaintext/{self._config.key}", {"bits": 256})
        return base64.b64decode(answer["plaintext"]), str(answer["ciphertext"])

    def decrypted(self, ciphertext: str) -> bytes | None:
        """Returns the decrypted data key; None if it belongs to another key, or to a version that is no longer allowed.
        Raises OSError and VaultRefused."""
        try:
            answer = self._ask(f"decrypt/{self._config.key}", {"ciphertext": ciphertext})
        except VaultRefused as refused:
            if isinstance(refused.__cause__, urllib.error.HTTPError) and refused.__cause__.code == _BAD_REQUEST:
                return None
            raise
        return base64.b64decode(answer["plaintext"])

    def _ask(self, path: str, body: object) -> Any:
        config = self._config
        token = files.read_file(config.token_file, _LARGEST).decode().strip()
        headers = {"X-Vault-Token": token, "Content-Type": "application/json"}
        if config.namespace is not None:
            headers["X-Vault-Namespace"] = config.namespace
        asked = urllib.request.Request(
            f"{config.url}/v1/{config.mount}/{path}", json.dumps(body).encode(), headers, method="POST"
        )
        try:
            with urllib.request.urlopen(asked, timeout=config.timeout, context=self._trusted) as answer:
                return json.loads(answer.read(_LARGEST))["data"]
        except urllib.error.HTTPError as problem:
            raise VaultRefused(f"{problem.code}: {_errors_of(problem)}") from problem


def _errors_of(problem: urllib.error.HTTPError) -> str:
    try:
        return "; ".join(map(str, json.loads(problem.read(_LARGEST))["errors"])) or problem.reason
    except (ValueError, KeyError, TypeError):
        return problem.reason


def _trusted(config: VaultConfig) -> ssl.SSLContext | None:
    if config.ca_file is None:
        return None
    try:
        return ssl.create_default_context(cadata=read_file("vault.ca_file", config.ca_file).decode())
    except (ssl.SSLError, UnicodeDecodeError) as problem:
        raise CannotBegin("vault.ca_file", str(config.ca_file), "a file with certificates in PEM") from problem

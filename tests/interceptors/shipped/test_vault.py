"""`encrypt` with a Vault: its transit engine makes and opens data keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from mesh.interceptors.shipped.data_keys import NotDecrypted
from mesh.interceptors.shipped.encrypt import HEADER, Encrypt, EncryptConfig
from mesh.interceptors.shipped.vault import VaultRefused
from mesh.interceptors.spi import CannotBegin, Record
from tests.interceptors.fakes import FETCH, PRODUCE
from tests.interceptors.shipped.vault import TOKEN, FakeVault, running


@pytest.fixture
def vault() -> Iterator[FakeVault]:
    with running() as vault:
        yield vault


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    return file


def encrypt(vault: FakeVault, token: Path, **more: Any) -> Encrypt:
    config = {"url": vault.url, "key": "orders", "token_file": str(token), **more}
    return Encrypt(EncryptConfig.model_validate({"vault": config}))


def through(interceptor: Encrypt, record: Record, where: Any) -> Record:
    found = interceptor.intercept(record, where)
    assert isinstance(found, Record)
    return found


def test_there_and_back_in_another_process(vault: FakeVault, token: Path) -> None:
    here, there = encrypt(vault, token), encrypt(vault, token, namespace="team")
    records = [Record(b"k", b"secret %d" % number, (("a", b"1"),)) for number in range(3)]
    stored = [through(here, each, PRODUCE) for each in records]
    assert vault.asked == ["/v1/transit/datakey/plaintext/orders"], "a key is made for many records"
    assert all(b"secret" not in (each.value or b"") for each in stored)
    assert [through(there, each, FETCH) for each in stored] == records
    assert vault.asked[1:] == ["/v1/transit/decrypt/orders"], "and opened once"
    assert vault.namespaces == [None, "team"]


def test_a_key_that_is_rotated(vault: FakeVault, token: Path) -> None:
    stored = through(encrypt(vault, token), Record(None, b"secret"), PRODUCE)
    vault.rotate()
    assert through(encrypt(vault, token), stored, FETCH).value == b"secret"
    vault.oldest = 2
    with pytest.raises(NotDecrypted, match="does not decrypt"):
        encrypt(vault, token).intercept(stored, FETCH)
    newer = through(encrypt(vault, token), Record(None, b"secret"), PRODUCE)
    assert through(encrypt(vault, token), newer, FETCH).value == b"secret"


def test_a_vault_that_refuses(vault: FakeVault, token: Path) -> None:
    interceptor = encrypt(vault, token)
    vault.is_sealed = True
    with pytest.raises(VaultRefused, match="503: Vault is sealed"):
        interceptor.intercept(Record(None, b"secret"), PRODUCE)
    vault.is_sealed = False
    token.write_text("another")
    with pytest.raises(VaultRefused, match="403: permission denied"):
        interceptor.intercept(Record(None, b"secret"), PRODUCE)
    token.write_text(TOKEN)
    assert through(interceptor, Record(None, b"secret"), PRODUCE).value != b"secret", "the token is read each time"


@pytest.mark.parametrize("header", [b"none", b"{}", b'{"vault":5}', b'{"vault":"vault:v1:AAAA"}', b'{"key":"a"}'])
def test_headers_that_are_none(vault: FakeVault, token: Path, header: bytes) -> None:
    with pytest.raises(NotDecrypted):
        encrypt(vault, token).intercept(Record(None, b"x" * 40, ((HEADER, header),)), FETCH)


def test_what_it_cannot_begin_with(vault: FakeVault, tmp_path: Path, token: Path) -> None:
    with pytest.raises(CannotBegin, match=r"vault\.token_file: .*can be read"):
        encrypt(vault, tmp_path / "none")
    with pytest.raises(CannotBegin, match=r"vault\.ca_file: .*certificates in PEM"):
        encrypt(vault, token, ca_file=str(token))
    for config in ({}, {"keys": "a", "vault": {"url": vault.url, "key": "orders", "token_file": "b"}}):
        with pytest.raises(ValidationError, match="one of keys and vault"):
            EncryptConfig.model_validate(config)
    for key in ("../sys", "a b", ""):
        with pytest.raises(ValidationError):
            encrypt(vault, token, key=key)

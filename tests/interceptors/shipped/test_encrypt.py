"""`encrypt`: produced records cannot be read without the key file, and consumers get them in clear."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mesh.interceptors.shipped.data_keys import NotDecrypted, keys_of
from mesh.interceptors.shipped.encrypt import HEADER, Encrypt, EncryptConfig
from mesh.interceptors.spi import KEEP, CannotBegin, Record
from tests.interceptors.fakes import FETCH, PRODUCE


def line(name: str, byte: int = 1) -> str:
    return f"{name} {base64.b64encode(bytes([byte]) * 32).decode()}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "keys"
    file.write_text("# the first one encrypts\n" + line("2026", 1) + "\n" + line("2025", 2))
    return file


def encrypt(file: Path, now: float = 0.0, **more: object) -> Encrypt:
    return Encrypt(EncryptConfig.model_validate({"keys": str(file), **more}), lambda: now)


def through(interceptor: Encrypt, record: Record) -> Record:
    found = interceptor.intercept(record, PRODUCE)
    assert isinstance(found, Record)
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=2_000))
def test_there_and_back_in_another_process(file: Path, value: bytes) -> None:
    record = Record(b"key", value, (("kept", b"1"),), 7)
    stored = through(encrypt(file), record)
    assert stored.value is not None and (len(value) < 4 or value not in stored.value)
    assert [name for name, _ in stored.headers] == ["kept", HEADER]
    assert encrypt(file).intercept(stored, FETCH) == record


def test_the_same_is_never_encrypted_to_the_same(file: Path) -> None:
    interceptor = encrypt(file)
    assert len({through(interceptor, Record(None, b"same")).value for _ in range(100)}) == 100


def test_data_keys_are_of_a_topic_and_a_time(file: Path) -> None:
    now = [0.0]
    interceptor = Encrypt(EncryptConfig.model_validate({"keys": str(file), "rotate": "1h"}), lambda: now[0])
    first = through(interceptor, Record(None, b"a"))
    now[0] = 3_599.0
    assert through(interceptor, Record(None, b"b")).headers == first.headers
    now[0] = 3_600.0
    assert through(interceptor, Record(None, b"c")).headers != first.headers


def test_an_earlier_key_of_the_file_still_decrypts(file: Path) -> None:
    stored = through(encrypt(file), Record(None, b"secret"))
    file.write_text(line("2027", 3) + line("2026", 1))
    later = encrypt(file)
    found = later.intercept(stored, FETCH)
    assert isinstance(found, Record) and found.value == b"secret"
    assert b'"2027"' in (through(later, Record(None, b"new")).headers[0][1] or b"")
    file.write_text(line("2027", 3))
    with pytest.raises(NotDecrypted, match="'2026' is not in the key file"):
        encrypt(file).intercept(stored, FETCH)
    file.write_text(line("2026", 9))
    with pytest.raises(NotDecrypted, match="'2026' is another one"):
        encrypt(file).intercept(stored, FETCH)


def test_what_was_changed_is_not_decrypted(file: Path) -> None:
    stored = through(encrypt(file), Record(None, b"secret"))
    assert stored.value is not None
    for value in (stored.value[:-1] + bytes([stored.value[-1] ^ 1]), b"", stored.value[:12]):
        with pytest.raises(NotDecrypted):
            encrypt(file).intercept(stored.with_value(value), FETCH)
    for header in (b"", None, b"{}", b"[]", b'{"key": "2026", "data": "???"}', b'{"key": "2026", "data": ""}'):
        with pytest.raises(NotDecrypted):
            encrypt(file).intercept(stored.with_headers([(HEADER, header)]), FETCH)


def test_what_is_plain_passes_if_it_may(file: Path) -> None:
    with pytest.raises(NotDecrypted, match="not encrypted"):
        encrypt(file).intercept(Record(None, b"plain"), FETCH)
    assert encrypt(file, plain=True).intercept(Record(None, b"plain"), FETCH) is KEEP
    for where in (FETCH, PRODUCE):
        assert encrypt(file).intercept(Record(b"deleted", None), where) is KEEP


@pytest.mark.parametrize("text", ["", "# nothing\n", "name\n", "name AAAA\n", "name ???\n", line("a") + line("a", 2)])
def test_a_file_of_keys_has_some(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(CannotBegin, match="keys"):
        keys_of(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotBegin) as refusal:
        keys_of(tmp_path / "none")
    told = refusal.value
    assert (told.key, told.value) == ("keys", str(tmp_path / "none"))
    assert told.allowed == "a file that can be read (No such file or directory)"

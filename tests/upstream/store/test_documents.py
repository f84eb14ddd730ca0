"""Documents of the store as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.upstream.store.documents import DocumentKey, DocumentKind, StoreUnreadable, decode, encode

KIND = DocumentKind("epochs", 2)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.text(), st.text(), st.text())
def test_keys_are_read_as_they_were_written(kind: str, virtual_cluster: str, group: str) -> None:
    key = DocumentKey(kind, virtual_cluster, group)
    assert DocumentKey.decode(key.encode()) == key


@given(st.dictionaries(st.text().filter(lambda name: name != "version"), JSON))
def test_documents_are_read_as_they_were_written(document: dict[str, object]) -> None:
    assert decode(KIND, encode(KIND, document)) == document


@pytest.mark.parametrize("key", [None, b"", b"{}", b"[1,2,3]", b'["a","b"]', b'["a","b","c","d"]', b"\xff"])
def test_other_keys_are_none(key: bytes | None) -> None:
    assert DocumentKey.decode(key) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "no version"),
        (b'{"stored":1}', "no version"),
        (b'{"version":"1"}', "no version"),
        (b'{"version":3}', "version 3; this kafka-mesh reads up to 2"),
    ],
)
def test_what_is_not_understood_is_told(value: bytes, reason: str) -> None:
    with pytest.raises(StoreUnreadable, match=reason):
        decode(KIND, value)


def test_an_earlier_version_is_read() -> None:
    assert decode(KIND, encode(DocumentKind("epochs", 1), {"stored": 4})) == {"stored": 4}

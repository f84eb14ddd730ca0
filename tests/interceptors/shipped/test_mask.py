"""`mask`: it hides the values at the paths, and changes nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.interceptors.shipped.mask import Mask
from mesh.interceptors.spi import CannotBegin, Record
from mesh.interceptors.testing import Failed, intercepted

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "card"]), inner, max_size=3),
)


def masked(value: Any, **config: Any) -> Any:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    ((found),) = [each.value for each in intercepted(Mask, [Record(None, data)], config)]
    return json.loads(found or b"null")


@pytest.mark.parametrize(
    ("value", "paths", "expected"),
    [
        ({"card": "4000-1234"}, ["card"], {"card": "****"}),
        ({"card": {"number": "1", "month": 7}}, ["card.number"], {"card": {"number": "****", "month": 7}}),
        (
            {"cards": [{"number": 1}, {"number": 2}]},
            ["cards.number"],
            {"cards": [{"number": "****"}, {"number": "****"}]},
        ),
        ({"cards": ["1", "2"]}, ["cards"], {"cards": ["****", "****"]}),
        ({"card": {"number": 1}}, ["card"], {"card": "****"}),
        ({"card": None, "b": 1}, ["card", "c.d", "b.x"], {"card": None, "b": 1}),
        ([{"a": 1}], ["a"], [{"a": "****"}]),
        ({"größe": "ä"}, ["größe"], {"größe": "****"}),
    ],
)
def test_paths(value: Any, paths: list[str], expected: Any) -> None:
    assert masked(value, paths=paths) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("4000123412341234", "****1234"), ("1234", "****"), (40001234, "****1234"), ("", "****")]
)
def test_the_end_may_stay(value: Any, expected: str) -> None:
    assert masked({"card": value}, paths=["card"], keep_last=4) == {"card": expected}


def test_a_hash_is_the_same_for_the_same(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"a secret of 16 bytes and more\n")
    one, same, other = (
        masked({"card": card}, paths=["card"], hash_key=str(key))["card"] for card in ("4000", "4000", "4001")
    )
    assert one == same != other
    assert len(one) == 64 and "4000" not in one
    key.write_bytes(b"short")
    with pytest.raises(CannotBegin, match="a secret of 16 bytes or more"):
        masked({}, paths=["card"], hash_key=str(key))


@pytest.mark.parametrize("value", [b"no JSON", b"\xff", b"", b'{"card": "4000"} {"card": "4000"}', b'{"card": NaN}'])
def test_what_is_no_json_does_not_go_on(value: bytes) -> None:
    with pytest.raises(Failed):
        masked(value, paths=["card"])


def test_a_number_that_cannot_be_written_again_does_not_go_on() -> None:
    value = b'{"card": "4000", "many": 1e400}'
    with pytest.raises(Failed, match="JSON compliant"):
        masked(value, paths=["card"])
    (unchanged,) = intercepted(Mask, [Record(None, value)], {"paths": ["other"]})
    assert unchanged.value == value


def test_a_name_that_stands_twice_is_hidden_twice() -> None:
    assert masked(b'{"card": "4000", "card": "4001"}', paths=["card"]) == {"card": "****"}


def test_null_stays() -> None:
    assert intercepted(Mask, [Record(b"key", None)], {"paths": ["card"]})[0].value is None


@given(JSON)
def test_nothing_at_the_path_is_left(value: Any) -> None:
    def left(tree: Any) -> list[Any]:
        if isinstance(tree, list):
            return [found for each in tree for found in left(each)]
        return [tree["card"]] if isinstance(tree, dict) and tree.get("card") is not None else []

    def flat(tree: Any) -> list[Any]:
        return [found for each in tree for found in flat(each)] if isinstance(tree, list) else [tree]

    assert {text for each in left(masked(value, paths=["card"])) for text in flat(each)} <= {"****"}


def test_a_character_that_no_encoding_has_stays_escaped() -> None:
    """JSON can contain half of a character, which UTF-8 cannot."""
    assert masked(rb'{"card": "1", "note": "\ud83d"}', paths=["card"]) == {"card": "****", "note": "\ud83d"}
    assert masked(rb'{"card": "\ud83d4000"}', paths=["card"], keep_last=4) == {"card": "****4000"}


def test_half_a_character_is_hashed(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"a secret of 16 bytes and more\n")
    found = masked(rb'{"card": "\ud83d"}', paths=["card"], hash_key=str(key))
    assert len(found["card"]) == 64


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"card": {"number": "4000"}, "card": {}}', b'{"card":{}}'),
        (b'[{"card": {"number": "4000", "number": null}}]', b'[{"card":{"number":null}}]'),
    ],
)
def test_of_a_name_that_stands_twice_the_first_does_not_go_on(value: bytes, expected: bytes) -> None:
    """Readers differ in which of the two they take, and the last one has nothing to mask."""
    (found,) = intercepted(Mask, [Record(None, value)], {"paths": ["card.number"]})
    assert found.value == expected

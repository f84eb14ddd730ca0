from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.config.mistakes import ConfigurationError
from mesh.config.yaml_reading import read


def data(text: str, **variables: str) -> object:
    document = read(text.encode(), variables)
    assert not document.mistakes
    return document.data


def mistakes(text: str, **variables: str) -> list[str]:
    return [str(mistake) for mistake in read(text.encode(), variables).mistakes]


def test_plain_yaml() -> None:
    assert data("{a: [1, 2.5, true, null, 'x'], b: {c: d}}") == {"a": [1, 2.5, True, None, "x"], "b": {"c": "d"}}
    assert data("") == {}


def test_merge_keys() -> None:
    assert data("base: &b {x: 1, y: 2}\nown: {<<: *b, y: 3}\ntwo: {<<: [{x: 5}, *b]}") == {
        "base": {"x": 1, "y": 2},
        "own": {"x": 1, "y": 3},
        "two": {"x": 5, "y": 2},
    }


def test_variables() -> None:
    assert data("a: ${X}-${Y}", X="1", Y="2") == {"a": "1-2"}
    assert data("a: ${X:-d} ${Y:-e} ${Z:-}", Y="") == {"a": "d e "}
    assert data("a: ${X}", X="") == {"a": ""}
    assert data("a: $${X} $X $", X="1") == {"a": "${X} $X $"}
    assert data("a: ${X}", X="${Y}") == {"a": "${Y}"}, "what comes from the environment is not looked into again"
    assert data("${X}: 1", X="k") == {"${X}": 1}


def test_every_unset_variable_is_named() -> None:
    first, second = mistakes("{a: '${X} ${Y}'}")
    assert first == "a: '${X} ${Y}': set X in the environment, or give a default: ${X:-...}"
    assert "set Y" in second


def test_files(tmp_path: Path) -> None:
    """As a secret that is mounted: the end of its last line is not part of it."""
    secret, other = tmp_path / "password", tmp_path / "other"
    secret.write_text("se=c,ret ${X}\r\n")
    other.write_bytes(b"\xff")
    text = f"{{name: '${{X}}', password: '${{file:{secret}}}'}}"
    document = read(text.encode(), {"X": "alice"})
    assert document.data == {"name": "alice", "password": "se=c,ret ${X}"}
    assert document.environment.hide("it is se=c,ret ${X}!") == f"it is ${{file:{secret}}}!"
    assert document.environment.redact({"a": 1}, ()) == {"a": 1}
    missing = f"a: '${{file:{tmp_path}/missing}}'"
    assert mistakes(missing) == [
        f"a: '${{file:{tmp_path}/missing}}': a file that can be read; {tmp_path}/missing: No such file or directory"
    ]
    assert mistakes(f"a: '${{file:{other}}}'")[0].endswith("no text in UTF-8")
    assert len(mistakes("a: '${file:}'")) == 1
    assert data("a: '${file:-x}'") == {"a": "x"}, "a variable of that name, which is not set"


def test_malformed_references() -> None:
    assert len(mistakes("{a: '${', b: '${1X}', c: '${X', d: '${X:=1}'}", X="1")) == 4


def test_keys_twice_at_any_depth() -> None:
    assert mistakes("a: 1\nb:\n  - {c: 1, d: 2,\n     c: 3}\na: 2\n") == [
        "b[0].c: line 4: this key stands here a second time",
        "a: line 5: this key stands here a second time",
    ]


def test_keys_that_are_no_text() -> None:
    assert mistakes("{yes: a}") == ["yes: line 1: keys are texts"]
    assert mistakes("{on: a}") == []
    assert mistakes("{1: a, ? [x] : b}") == ["1: line 1: keys are texts", "?: line 1: keys are texts"]


@pytest.mark.parametrize(
    "text",
    ["{", "a: b: c", "a: *nowhere", "\ta", "a: [1", "--- 1\n--- 2", "a: &a [*a]", "[" * 5_000, "a: {<<: 1}", "\0"],
)
def test_no_yaml(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(text.encode(), {})
    assert len(caught.value.mistakes) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {b: ${X}}", "line 1, column 9: expected ',' or '}', but got '{': a YAML document; inside {} or [] "),
        ("a: *secret", "line 1, column 4: found undefined alias '...': a YAML document"),
        (b"a: b\nc: \xff\xfe", "line 2: invalid start byte: a YAML document in UTF-8"),
        (b"a: b\nc: \x00", "line 2: special characters are not allowed: a YAML document in UTF-8"),
        ("{a: b\nc", "line 2, column 2: expected ',' or '}', but got '<stream end>': a YAML document"),
    ],
)
def test_no_yaml_says_where_and_why_but_quotes_no_secret(text: str | bytes, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(text if isinstance(text, bytes) else text.encode(), {})
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("text", ["a: !!python/name:os.system", "a: !secret x", "a: 2001-99-99", "a: !!int x"])
def test_no_plain_values(text: str) -> None:
    assert mistakes(text) == ["a: line 1: a plain YAML value, without a tag"]


@pytest.mark.parametrize("value", ["*hunter2", "!hunter2 x", "'hunter2", "[hunter2", "{hunter2: }}", "hunter2: x"])
def test_errors_of_syntax_do_not_quote_the_file(value: str) -> None:
    try:
        said = mistakes(f"sasl.password: {value}\n")
    except ConfigurationError as error:
        said = [str(mistake) for mistake in error.mistakes]
    assert said
    assert "hunter2" not in "".join(said)


@given(st.binary(max_size=60) | st.text(":-[]{}&*!|>'\"%@`?<a1$\n ", max_size=40).map(str.encode))
def test_whatever_the_bytes_are(text: bytes) -> None:
    try:
        read(text, {})
    except ConfigurationError as error:
        assert error.mistakes


KINDS = [
    "bool",
    "int",
    "float",
    "timestamp",
    "binary",
    "null",
    "str",
    "seq",
    "map",
    "set",
    "omap",
    "pairs",
    "merge",
    "x",
]


@pytest.mark.parametrize(
    "value",
    [
        *("!!bool maybe", "!!int ''", "!!int '0x'", "!!float ''", "!!timestamp x", "!!timestamp 2026-99-99"),
        *("!!binary 'x'", "!!python/name:os.system x", "!own x", "!!int " + "9" * 5_000),
        *("!!pairs 7", "!!omap 7", "!!seq 7", "!!map 7", "!!set 7"),
    ],
)
def test_a_tag_that_does_not_fit_its_value_is_a_mistake(value: str) -> None:
    assert mistakes(f"a: 1\nb: {value}\n") == ["b: line 2: a plain YAML value, without a tag"]


@pytest.mark.parametrize("text", ['a: "\\UFFFFFFFF"', "%YAML " + "9" * 5_000 + ".1\n---\na: 1"])
def test_a_text_that_the_library_fails_at_is_no_document(text: str) -> None:
    with pytest.raises(ConfigurationError, match="a YAML document"):
        read(text.encode(), {})


@given(
    st.sampled_from(KINDS), st.text(st.sampled_from("0123456789.:-+_xobeE=TZ~[]{}!&*'\"\\ unatrelsy\n"), max_size=12)
)
def test_no_tag_and_no_value_raise_anything_else(kind: str, value: str) -> None:
    for text in (f"a: !!{kind} {value}", f"!!{kind} {value}: a", f"- !!{kind} [{value}]", value):
        with suppress(ConfigurationError):
            read(text.encode(), {})

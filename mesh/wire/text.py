"""Text in messages: UTF-8, and bytes that are not, which become the same characters as in Java.

Python replaces each byte of an encoded surrogate, Java replaces all of them at once. With another number of replacement
characters, kafka-mesh and the broker would know a group or a transaction by different names.
"""

from __future__ import annotations

import codecs
from typing import Final

_AS_IN_JAVA: Final = "kafka-mesh-as-in-java"
"""The name of the error handler."""
_FIRST_OF_SURROGATE: Final = 0xED


def text_of(content: bytes | memoryview) -> str:
    """Returns the text in these bytes."""
    return str(content, "utf-8", _AS_IN_JAVA)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError), "text is never encoded with it"
    content, end = error.object, error.start + 1
    if content[error.start] != _FIRST_OF_SURROGATE:
        return "\N{REPLACEMENT CHARACTER}", error.end
    while end < min(error.start + 3, len(content)) and 0x80 <= content[end] < 0xC0:
        end += 1
    return "\N{REPLACEMENT CHARACTER}", end


codecs.register_error(_AS_IN_JAVA, _replaced)

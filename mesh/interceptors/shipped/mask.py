"""`mask` hides values in JSON by their paths: entirely, except their end, or behind a keyed hash."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from mesh.interceptors.shipped.files import read_file
from mesh.interceptors.spi import KEEP, CannotBegin, Effect, Interceptor, NoConfig, Outcome, Reads, Record, Where

HIDDEN: Final = "****"
SHORTEST_KEY: Final = 16


class MaskConfig(NoConfig):
    """The configuration of `mask`. paths: names with dots between them; elements of an array have the path of the
    array."""

    paths: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)] = Field(
        description="Names in the JSON of a value, with dots between them."
    )
    keep_last: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None, description="How many characters at the end stay."
    )
    hash_key: Path | None = Field(
        default=None, description="A file with a secret; then a keyed hash takes the place of the value."
    )

    @model_validator(mode="after")
    def _one_way(self) -> MaskConfig:
        if self.keep_last is not None and self.hash_key is not None:
            raise PydanticCustomError("mask", "a mapping with paths, and one of keep_last and hash_key, or none")
        return self


class Mask(Interceptor):
    """An interceptor that hides values in JSON. A value that is not JSON is a failure, so that nothing unreadable
    passes in clear. Null values are kept."""

    reads = Reads.VALUE
    effect = Effect.MAP
    config = MaskConfig

    def __init__(self, config: MaskConfig) -> None:
        self._paths: Final = [tuple(path.split(".")) for path in config.paths]
        self._hide: Final = _hiding(config)

    def intercept(self, record: Record, where: Where) -> Outcome:
        masked = self.masked(record.value) if record.value is not None else None
        return KEEP if masked is None else record.with_value(masked)

    def masked(self, value: bytes) -> bytes | None:
        """Returns a value with hidden parts; None if nothing is at the paths. Raises ValueError if it is not JSON."""
        twice: list[str] = []
        tree = json.loads(value, object_pairs_hook=partial(_object, twice), parse_constant=_no_number)
        is_changed = bool(twice)
        for path in self._paths:
            is_changed |= self._mask(tree, path)
        return _compact(tree) if is_changed else None

    def _mask(self, tree: Any, path: tuple[str, ...]) -> bool:
        """Hides the value at this path. Returns whether there is one."""
        if isinstance(tree, list):
            return any([self._mask(each, path) for each in tree])
        name, *rest = path
        if not isinstance(tree, dict) or name not in tree:
            return False
        if rest:
            return self._mask(tree[name], tuple(rest))
        if tree[name] is None:
            return False
        tree[name] = self._hidden(tree[name])
        return True

    def _hidden(self, value: Any) -> Any:
        return [self._hidden(each) for each in value] if isinstance(value, list) else self._hide(value)


def _object(twice: list[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object. Readers differ in which of two equal names they use. So the value is written again with
    only the last one; otherwise the other one would pass in clear. twice: a list that gets such a name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice.append(pairs[-1][0])
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name}, which is no JSON")


def _compact(tree: Any) -> bytes:
    """Encodes JSON. Raises ValueError for a number that JSON cannot represent."""
    try:
        return json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can only write as an escape
        return json.dumps(tree, allow_nan=False, separators=(",", ":")).encode()


def _hiding(config: MaskConfig) -> Callable[[Any], str]:
    if config.hash_key is not None:
        key = read_file("hash_key", config.hash_key).strip()
        if len(key) < SHORTEST_KEY:
            raise CannotBegin("hash_key", str(config.hash_key), f"a file with a secret of {SHORTEST_KEY} bytes or more")
        return lambda value: hmac.new(key, _text(value).encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
    if (keep := config.keep_last) is not None:
        return lambda value: HIDDEN + (_text(value)[-keep:] if len(_text(value)) > keep else "")
    return lambda value: HIDDEN


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)

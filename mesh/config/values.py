"""The values in a configuration: durations, sizes, addresses. Each has one parser and one text form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, StringConstraints
from pydantic_core import PydanticCustomError

from mesh.quantities import BYTES, parse_duration, parse_size, quantity

SYSTEM: Final = "system"
_WILDCARD_HOSTS: Final = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen on, or to give to clients. An IPv6 host is kept without its brackets."""

    host: str
    port: int

    @property
    def is_wildcard(self) -> bool:
        """Returns whether the host means all interfaces. Clients cannot connect to such an address."""
        return self.host in _WILDCARD_HOSTS

    @property
    def is_loopback(self) -> bool:
        """Returns whether only this machine reaches the address."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(value: object) -> Address:
    """Parses HOST:PORT, an IPv6 host in brackets. Raises PydanticCustomError for anything else."""
    if isinstance(value, Address):
        value = str(value)
    if isinstance(value, str):
        host, _, port = value.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        bare = host[1:-1] if bracketed else host
        if _may_be_host(bare) and (":" in bare) == bracketed and re.fullmatch(r"[0-9]+", port):
            number = int(port[:6])
            if 1 <= number <= 65535:
                return Address(bare, number)
    raise PydanticCustomError("address", "HOST:PORT with a port from 1 to 65535; put an IPv6 host in brackets")


def _may_be_host(text: str) -> bool:
    try:
        text.encode("idna")  # what the look at the addresses of a host begins with
    except UnicodeError:
        return False
    return bool(text) and not re.search(r"[\s\0\[\]/]", text)


def parse_send_buffer(value: object) -> int | None:
    """Parses the size of a send buffer like `parse_size`; returns None for the system's own choice."""
    return None if value == SYSTEM else round(quantity(value, BYTES, f"a size like 256KiB, or {SYSTEM}"))


def format_send_buffer(size: int | None) -> str:
    return SYSTEM if size is None else format_size(size)


def format_duration(seconds: float) -> str:
    """Returns the shortest text that parses to the same duration: 0.2 -> 200ms, 300 -> 5m."""
    for unit, factor in (("h", 3600), ("m", 60), ("s", 1)):
        if seconds and seconds % factor == 0:
            return f"{int(seconds // factor)}{unit}"
    return f"{seconds * 1000:.12g}ms"


def format_size(size: int) -> str:
    """Returns the shortest text that parses to the same size: 4194304 -> 4MiB."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % BYTES[unit] == 0:
            return f"{size // BYTES[unit]}{unit}"
    return f"{size}B"


def _refuse_bool(value: object) -> object:
    # YAML reads `yes` and `on` as true, and pydantic reads true as 1.
    if isinstance(value, bool):
        raise PydanticCustomError("count", "a whole number")
    return value


def _scalar_text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
    raise PydanticCustomError("scalar", "a text, a number, true or false")


_CLOSED: Final = r"(?:[^\[]|\[!?+\]?+[^\]]*\])*"
"""A pattern in which each `[` is closed. `fnmatch` takes an unclosed one literally, so the pattern would match
nothing."""


def matching(pattern: str, allowed: str) -> AfterValidator:
    """Returns a validator of texts that match the whole pattern. allowed: the description of such texts."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if compiled.fullmatch(value) is None:
            raise PydanticCustomError("text", "{allowed}", {"allowed": allowed})
        return value

    return AfterValidator(check)


def http_url(allowed: str = "an http or https URL") -> AfterValidator:
    """Returns a validator of URLs of HTTP with a host and, if they name one, a valid port. allowed: their
    description."""

    def check(value: str) -> str:
        try:
            parts = urlsplit(value)
            is_valid = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0
        except ValueError:  # of the port, or of a host in brackets
            is_valid = False
        if not is_valid or re.search(r"\s", value):
            raise PydanticCustomError("text", "{allowed}", {"allowed": allowed})
        return value

    return AfterValidator(check)


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Whole numbers from first to last, both included."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def number_range(highest: int, allowed: str) -> Callable[[object], NumberRange]:
    """Returns a parser of NUMBER or FIRST-LAST, up to `highest`."""

    def parse(value: object) -> NumberRange:
        if isinstance(value, NumberRange):
            return value
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if isinstance(text, str) and (found := re.fullmatch(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", text.strip())):
            first, last = int(found[1]), int(found[2] or found[1])
            if first <= last <= highest:
                return NumberRange(first, last)
        raise PydanticCustomError("range", "{allowed}", {"allowed": allowed})

    return parse


def parse_share(value: object) -> float:
    """Parses a part of a whole, such as `5%`. Raises PydanticCustomError for anything that is not between 0 % and 100
    %."""
    if isinstance(value, str) and (found := re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", value.strip())):
        value = float(found[1]) / 100
    if isinstance(value, float) and 0 < value < 1:
        return value
    raise PydanticCustomError("share", "a percentage above 0% and below 100%, such as 5%")


def format_share(share: float) -> str:
    return f"{share * 100:.6g}%"


PortRange = Annotated[
    NumberRange,
    BeforeValidator(number_range(65535, "FIRST-LAST, ports from 1 to 65535"), json_schema_input_type=str | int),
    PlainSerializer(str, return_type=str),
]
NodeIdRange = Annotated[
    NumberRange,
    BeforeValidator(number_range(2**31 - 1, "a node id, or FIRST-LAST"), json_schema_input_type=str | int),
    PlainSerializer(str, return_type=str),
]
Endpoint = Annotated[Address, BeforeValidator(parse_address, json_schema_input_type=str), PlainSerializer(str)]
Duration = Annotated[
    float,
    Field(gt=0, le=86_400),
    BeforeValidator(parse_duration, json_schema_input_type=str | float),
    PlainSerializer(format_duration, return_type=str),
]
Size = Annotated[
    int,
    Field(ge=1, le=2**40),
    BeforeValidator(parse_size, json_schema_input_type=str | int),
    PlainSerializer(format_size, return_type=str),
]
SendBuffer = Annotated[
    Annotated[int, Field(ge=4096, le=2**30)] | None,
    BeforeValidator(parse_send_buffer, json_schema_input_type=str | int),
    PlainSerializer(format_send_buffer, return_type=str),
]
Share = Annotated[
    float,
    BeforeValidator(parse_share, json_schema_input_type=str | float),
    PlainSerializer(format_share, return_type=str),
]
Count = Annotated[int, Field(ge=1), BeforeValidator(_refuse_bool)]
Pattern = Annotated[
    str,
    StringConstraints(min_length=1, max_length=255),
    matching(_CLOSED, "a pattern with * ? and [ab] in it; write a literal [ as [[]"),
]
GroupPattern = Pattern
Scalar = Annotated[str, BeforeValidator(_scalar_text, json_schema_input_type=str | float | bool)]

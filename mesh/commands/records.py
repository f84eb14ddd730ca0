"""`kafka-mesh look`, `settle`, `bury` and `release`: requests about unsettled records to the admin address, and their
output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mesh.commands.status import ask

TIMEOUT = 20.0
"""Seconds for an answer. The mesh takes up to ten to read a record from its cluster."""


class Form(Enum):
    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"


def request(
    url: str, token: str | None, trusted: Path | None, asked: Mapping[str, object], method: str = "GET"
) -> Mapping[str, Any]:
    """Sends a request about records. asked: keys of /records; those that are None are left out. Raises
    StatusUnavailable."""
    named = {key: value for key, value in asked.items() if value is not None}
    return ask(url, "/records?" + urlencode(named), token, trusted, method, TIMEOUT)


def format_record(found: Mapping[str, Any], form: Form = Form.AUTO) -> str:
    """Returns a record as lines: its place and its content."""
    lines = [f"{found['partition']}@{found['offset']} of group {found['group']}", *map(_place, found["places"])]
    record = found.get("record")
    if record is None:
        return "\n".join([*lines, f"not shown: {found['not_shown']}"])
    if record["offset"] != found["offset"]:
        lines.append(f"no record at this offset; the next one is at offset {record['offset']}")
    if record["timestamp"] is not None:
        lines.append(
            f"time: {datetime.fromtimestamp(record['timestamp'] / 1000, UTC).isoformat(timespec='milliseconds')}"
        )
    lines.append(f"key: {_bytes(record['key'], form)}")
    lines += [f"header {each['name']}: {_bytes(each['value'], form)}" for each in record["headers"]]
    lines.append(f"value: {_bytes(record['value'], form)}")
    return "\n".join(lines)


def format_outcome(found: Mapping[str, Any]) -> str:
    """Returns the result of an action, or of a dry run, as lines."""
    count = found["records"]
    records = "1 record" if count == 1 else f"{count} records"
    head = f"dry run: would {found['action']} {records}" if found["dry_run"] else f"{found['action']}: {records}"
    return "\n".join([f"{head} of {found['partition']}", *map(_place, found["places"])])


def _place(place: Mapping[str, Any]) -> str:
    span = f"{place['first']}" if place["first"] == place["last"] else f"{place['first']}-{place['last']}"
    again = f", delivered in vain {place['deliveries']} times" if place["deliveries"] else ""
    if place["member"] is None:
        return f"  {span}: {place['state']}{again}"
    return f"  {span}: held by {place['member']} for {place['held_seconds']} s{again}"


def _bytes(shown: Mapping[str, Any] | None, form: Form) -> str:
    if shown is None:
        return "null"
    if shown.get("hidden"):
        return f"hidden ({shown['reason']})" if "reason" in shown else "hidden"
    cut = f"\n  ... {shown['size']} bytes in all" if shown.get("cut") else ""
    if form is Form.HEX:
        return str(shown["hex"] if "hex" in shown else shown["text"].encode().hex()) + cut
    if form is not Form.TEXT and "json" in shown:
        return "\n" + json.dumps(shown["json"], indent=2, ensure_ascii=False)
    if form is Form.JSON:
        return f"not JSON, {shown['size']} bytes"
    return str(shown["text"] if "text" in shown else f"0x{shown['hex']}") + cut

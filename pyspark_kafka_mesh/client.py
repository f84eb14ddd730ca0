"""The client of the mesh's range leases over HTTP; it repeats requests after temporary failures."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPException
from typing import Any

from pyspark_kafka_mesh.offsets import COMMITTED, Offset, Place, Range, without
from pyspark_kafka_mesh.options import Options

ALL = 100_000_000
"""The most offsets of one lease."""
FIRST_TTL = 300.0
"""Seconds of a query's first lease, until it is renewed. A driver that dies before Spark has logged the lease comes
back under another name, and nothing else would release the lease. A driver that dies in its first batch comes back for
it, and may need minutes to start."""
JOIN_WITHIN = 15.0
"""Seconds within which the mesh must get the partitions of a group that was unused for a while."""
WAIT = 10.0
"""Seconds for which a request for a lease waits for records, and for partitions that move just now."""
ANSWER_WITHIN = 30.0
RETRY_AFTER = 1.0


class MeshUnavailable(RuntimeError):
    """Raised when the mesh did not answer, or could not do a request, within `mesh.timeout.seconds`."""


class MeshRefused(RuntimeError):
    """Raised when the mesh refuses a request. status: the HTTP status. error: the mesh's error code."""

    def __init__(self, status: int, error: str, detail: str) -> None:
        super().__init__(f"the mesh refuses: {detail} ({error or status})")
        self.status, self.error = status, error


class LeaseLost(RuntimeError):
    """Raised when records of this query's lease are lost to it. Either the lease expired and other consumers got them,
    or their topic was created again, or its log truncated."""

    def __init__(self, lease: str, lost: Sequence[Range]) -> None:
        shown = ", ".join(map(str, lost[:5]))
        super().__init__(
            f"{sum(map(len, lost))} offsets of lease {lease} are lost ({shown}): it expired and others took them, who "
            f"process them, too; or their topic was created again, or truncated. failOnLeaseLoss=false goes on"
        )


class Client:
    """A client of one mesh, which may be several processes, each with some of the partitions. It asks one of them
    for leases: the first that answers, for as long as it does. It asks the others for ranges that have moved there
    since."""

    def __init__(self, options: Options) -> None:
        self._options = options
        is_secured = any(url.startswith("https") for url in options.urls)
        self._context = ssl.create_default_context(cafile=options.ca) if is_secured else None
        self._group_fields = {"virtual_cluster": options.virtual_cluster, "group": options.group}
        self._first = 0

    def lease(self, start: Offset, most: int | None, ends: Sequence[dict[str, Any]] | None = None) -> Offset:
        """Leases the records after `start`; returns `start` if there are none. Other leases of its holder end. ends:
        the end of each partition, as `ends` returned them.

        Raises MeshUnavailable and MeshRefused.
        """
        body = {
            "holder": start.holder,
            "topics": self._options.topics,
            "max_records": min(most or ALL, ALL),
            "max_bytes": self._options.most_bytes,
            "ttl": self._options.ttl if start.lease is not None else min(FIRST_TTL, self._options.ttl),
            "completed": start.lease,
            "wait": WAIT,
            "ends": ends,
        }
        answer = self._ask("/leases", body)
        if not answer["ranges"]:
            return start
        ranges = tuple(sorted(Range.of_json(each) for each in answer["ranges"]))
        bootstrap = tuple(sorted(answer["bootstrap_servers"].items()))
        return Offset(start.holder, answer["lease"], ranges, bootstrap, answer.get("isolation", COMMITTED))

    def acknowledge(self, offset: Offset) -> None:
        """Acknowledges a lease; this may be repeated. Raises LeaseLost, MeshUnavailable and MeshRefused."""
        self._settle(offset, offset.ranges, "acknowledge", {})

    def claim(self, offset: Offset) -> None:
        """Continues a lease of an earlier run. Raises LeaseLost, MeshUnavailable and MeshRefused."""
        self._settle(offset, offset.ranges, "claim", self._claim_fields)

    def renew(self, offset: Offset) -> None:
        """Renews a lease at the processes that have its partitions now, and claims parts that no process holds for it.
        Raises LeaseLost, MeshUnavailable and MeshRefused."""
        left = without(offset.ranges, self._renew_at(offset, None))
        for url in self._other_urls if left else ():
            left = without(left, self._renew_at(offset, url))
        if left:  # the mesh was restarted, or the partitions are moving
            self._settle(offset, left, "claim", self._claim_fields | {"wait": 0.0}, is_patient=False)

    def ends(self) -> list[dict[str, Any]]:
        """Returns the ends of the logs: records that were stored before the call are below them. Raises MeshUnavailable
        and MeshRefused."""
        topics = {"topics": self._options.topics}
        answers = [self._ask("/leases/backlog", topics | {"wait": JOIN_WITHIN})]
        for url in self._other_urls:  # their partitions may move to the first process during the query
            with suppress(MeshUnavailable, MeshRefused):
                answers.append(self._ask("/leases/backlog", topics | {"ends_within": JOIN_WITHIN}, 0.0, url))
        ends: dict[Place, int] = {}
        for each in (each for answer in answers for each in answer["partitions"]):
            place = each["cluster"], each["topic"], each["partition"]
            ends[place] = max(each["end"], ends.get(place, 0))
        names = ("cluster", "topic", "partition")
        return [dict(zip(names, place, strict=True)) | {"end": end} for place, end in ends.items()]

    def backlog(self) -> dict[str, int]:
        """Returns the numbers of free, leased and unacknowledged offsets. Raises MeshUnavailable."""
        answer = self._ask("/leases/backlog", {"topics": self._options.topics}, timeout=0.0)
        kinds = ("available", "leased", "lag")
        return {kind: sum(each[kind] for each in answer["partitions"]) for kind in kinds}

    @property
    def _claim_fields(self) -> dict[str, Any]:
        # Another process may have the partitions that the first one lacks.
        return {"ttl": self._options.ttl, "wait": WAIT if len(self._options.urls) == 1 else 0.0}

    @property
    def _other_urls(self) -> list[str]:
        urls = self._options.urls
        return [*urls[self._first + 1 :], *urls[: self._first]]

    def _renew_at(self, offset: Offset, url: str | None) -> list[Range]:
        """Renews a lease at one process, and returns the ranges that it holds for the lease. url: None for the first
        process that answers."""
        body = {"holder": offset.holder, "ttl": self._options.ttl}
        try:
            answer = self._ask(f"/leases/{offset.lease}/renew", body, None if url is None else 0.0, url)
        except MeshRefused as refused:
            if refused.error != "unknown_lease":
                raise
            return []
        except MeshUnavailable:
            if url is None:
                raise
            return []
        return [Range.of_json(each) for each in answer["ranges"]]

    def _settle(
        self, offset: Offset, ranges: Sequence[Range], verb: str, more: dict[str, Any], is_patient: bool = True
    ) -> None:
        until = time.monotonic() + self._options.timeout
        left = list(ranges)
        while True:
            left = self._settle_at(offset, left, verb, more, None)
            for url in self._other_urls if left else ():
                theirs = self._partitions_at(url)
                mine = [each for each in left if each.place in theirs]
                rest = [each for each in left if each.place not in theirs]
                left = rest + (self._settle_at(offset, mine, verb, more, url) if mine else [])
            if not left or not is_patient:
                return
            if time.monotonic() > until:
                raise MeshUnavailable(
                    f"{len(left)} ranges of lease {offset.lease} are not assigned to {', '.join(self._options.urls)}; "
                    f"if the mesh has more processes, name their admin addresses, too"
                )
            time.sleep(RETRY_AFTER)

    def _settle_at(
        self, offset: Offset, ranges: Sequence[Range], verb: str, more: dict[str, Any], url: str | None
    ) -> list[Range]:
        """Sends ranges of a lease to a process, with a verb. Returns the ranges of partitions that it does not have.
        url: None for the first process that answers. Raises LeaseLost, MeshUnavailable and MeshRefused."""
        body = {"holder": offset.holder, "ranges": [each.to_json() for each in ranges]} | more
        answer = self._ask(f"/leases/{offset.lease}/{verb}", body, url=url)
        if answer["lost"] and self._options.fail_on_lease_loss:
            raise LeaseLost(str(offset.lease), [Range.of_json(each) for each in answer["lost"]])
        return [Range.of_json(each) for each in answer["absent"]]

    def _partitions_at(self, url: str) -> set[Place]:
        """Returns the partitions that another process has. This request does not make it join the group."""
        try:
            answer = self._ask("/leases/backlog", {"topics": self._options.topics}, 0.0, url)
        except (MeshUnavailable, MeshRefused):
            return set()
        return {(each["cluster"], each["topic"], each["partition"]) for each in answer["partitions"]}

    def _ask(self, path: str, body: dict[str, Any], timeout: float | None = None, url: str | None = None) -> Any:
        """Returns the answer to a request, which it repeats after temporary failures. timeout: in seconds. url: None
        for the first process that answers."""
        until = time.monotonic() + (self._options.timeout if timeout is None else timeout)
        while True:
            first = self._first
            address = url or self._options.urls[first]
            try:
                return self._post(address + path, self._group_fields | body)
            except urllib.error.HTTPError as answer:
                error = _error_body(answer)
                if answer.code < 500:
                    raise MeshRefused(answer.code, error.get("error", ""), error.get("detail", str(answer))) from answer
                problem, is_gone = error.get("detail", str(answer)), error.get("error") == "unavailable"
            except (OSError, HTTPException) as failure:
                problem, is_gone = str(failure), True
            if is_gone and url is None:
                self._first = (first + 1) % len(self._options.urls)
            if time.monotonic() >= until:
                raise MeshUnavailable(f"{address}{path} did not do it in time: {problem}")
            time.sleep(RETRY_AFTER)

    def _post(self, url: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._options.token is not None:
            headers["Authorization"] = f"Bearer {self._options.token}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=ANSWER_WITHIN, context=self._context) as answer:
            return json.load(answer)


def _error_body(answer: urllib.error.HTTPError) -> dict[str, str]:
    try:
        body = json.load(answer)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}

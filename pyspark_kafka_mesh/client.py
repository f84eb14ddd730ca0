"""The mesh's range leases over HTTP; what fails for the moment is tried again."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any

from pyspark_kafka_mesh.offsets import COMMITTED, Offset, Place, Range, without
from pyspark_kafka_mesh.options import Options

ALL = 100_000_000
"""Offsets of one lease at most."""
FIRST_TTL = 60.0
"""Seconds of the first lease of a query, until it is renewed: a driver that dies before Spark has logged it comes back
under another name, and nobody would give it up."""
JOIN_WITHIN = 15.0
"""Seconds in which the mesh is assigned the partitions of a group that nobody has used for a while."""
WAIT = 10.0
"""Seconds that a request for a lease waits for something to lease."""
ANSWER_WITHIN = 30.0
RETRY_AFTER = 1.0


class MeshUnavailable(RuntimeError):
    """It did not answer, or could not do what it was asked, for as long as `mesh.timeout.seconds` allows."""


class MeshRefused(RuntimeError):
    """It says that this cannot be done. status: of HTTP; error: in the mesh's words."""

    def __init__(self, status: int, error: str, detail: str) -> None:
        super().__init__(f"the mesh refuses: {detail} ({error or status})")
        self.status, self.error = status, error


class LeaseLost(RuntimeError):
    """Others were given records that this query had leased, since the lease had expired; or their topic was deleted
    and made anew, or its log was cut off."""

    def __init__(self, lease: str, lost: Sequence[Range]) -> None:
        shown = ", ".join(map(str, lost[:5]))
        super().__init__(
            f"{sum(map(len, lost))} offsets of lease {lease} are lost ({shown}): it expired and others took them, who "
            f"process them, too; or their topic was made anew, or cut off. failOnLeaseLoss=false goes on"
        )


class Client:
    """A mesh may be several processes, each with some of the partitions. One of them is asked for leases: the first
    that answers, for as long as it does. The others are asked for what has moved there since it was leased."""

    def __init__(self, options: Options) -> None:
        self._options = options
        is_secured = any(url.startswith("https") for url in options.urls)
        self._context = ssl.create_default_context(cafile=options.ca) if is_secured else None
        self._who = {"virtual_cluster": options.virtual_cluster, "group": options.group}
        self._first = 0

    def lease(self, start: Offset, most: int | None, ends: Sequence[dict[str, Any]] | None = None) -> Offset:
        """What comes after `start`; the same as `start` if there is nothing. Its holder's other leases end. ends: of
        each partition, as `ends` has told them.

        Raises MeshUnavailable, MeshRefused.
        """
        body = {
            "holder": start.holder,
            "topics": self._options.topics,
            "max_records": min(most or ALL, ALL),
            "max_bytes": self._options.most_bytes,
            "ttl": self._options.ttl if start.lease is not None else min(FIRST_TTL, self._options.ttl),
            "completed": start.lease,
            "wait": WAIT if ends is None else 0.0,
            "ends": ends,
        }
        answer = self._ask("/leases", body)
        if not answer["ranges"]:
            return start
        ranges = tuple(sorted(Range.of_json(each) for each in answer["ranges"]))
        bootstrap = tuple(sorted(answer["bootstrap_servers"].items()))
        return Offset(start.holder, answer["lease"], ranges, bootstrap, answer.get("isolation", COMMITTED))

    def acknowledge(self, offset: Offset) -> None:
        """Be through with a lease; may be repeated. Raises LeaseLost, MeshUnavailable, MeshRefused."""
        self._settle(offset, offset.ranges, "acknowledge", {})

    def claim(self, offset: Offset) -> None:
        """Go on with a lease of an earlier life. Raises LeaseLost, MeshUnavailable, MeshRefused."""
        self._settle(offset, offset.ranges, "claim", self._claim)

    def renew(self, offset: Offset) -> None:
        """Wherever its partitions are now; what nobody holds for it is claimed. Raises LeaseLost, MeshUnavailable,
        MeshRefused."""
        left = without(offset.ranges, self._renewed(offset, None))
        for url in self._others if left else ():
            left = without(left, self._renewed(offset, url))
        if left:  # the mesh was restarted, or the partitions are on their way
            self._settle(offset, left, "claim", self._claim | {"wait": 0.0}, is_patient=False)

    def ends(self) -> list[dict[str, Any]]:
        """How far the logs go now. Raises MeshUnavailable, MeshRefused."""
        answer = self._ask("/leases/backlog", {"topics": self._options.topics, "wait": JOIN_WITHIN})
        return [
            {name: each[name] for name in ("cluster", "topic", "partition", "end")} for each in answer["partitions"]
        ]

    def backlog(self) -> dict[str, int]:
        """Offsets that nobody holds, that are leased, and that are not acknowledged. Raises MeshUnavailable."""
        answer = self._ask("/leases/backlog", {"topics": self._options.topics}, timeout=0.0)
        kinds = ("available", "leased", "lag")
        return {kind: sum(each[kind] for each in answer["partitions"]) for kind in kinds}

    @property
    def _claim(self) -> dict[str, Any]:
        # Where there are others, what the first does not have may be theirs.
        return {"ttl": self._options.ttl, "wait": WAIT if len(self._options.urls) == 1 else 0.0}

    @property
    def _others(self) -> list[str]:
        urls = self._options.urls
        return [*urls[self._first + 1 :], *urls[: self._first]]

    def _renewed(self, offset: Offset, url: str | None) -> list[Range]:
        """What is held for it there. url: None for the first."""
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
            for url in self._others if left else ():
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
        """Those that are absent there. url: None for the first. Raises LeaseLost, MeshUnavailable, MeshRefused."""
        body = {"holder": offset.holder, "ranges": [each.to_json() for each in ranges]} | more
        answer = self._ask(f"/leases/{offset.lease}/{verb}", body, url=url)
        if answer["lost"] and self._options.fail_on_lease_loss:
            raise LeaseLost(str(offset.lease), [Range.of_json(each) for each in answer["lost"]])
        return [Range.of_json(each) for each in answer["absent"]]

    def _partitions_at(self, url: str) -> set[Place]:
        """Those that another process has been assigned; it is not made to join the group for that."""
        try:
            answer = self._ask("/leases/backlog", {"topics": self._options.topics}, 0.0, url)
        except (MeshUnavailable, MeshRefused):
            return set()
        return {(each["cluster"], each["topic"], each["partition"]) for each in answer["partitions"]}

    def _ask(self, path: str, body: dict[str, Any], timeout: float | None = None, url: str | None = None) -> Any:
        """url: None for the first that answers."""
        until = time.monotonic() + (self._options.timeout if timeout is None else timeout)
        while True:
            first = self._first
            address = url or self._options.urls[first]
            try:
                return self._call(address + path, self._who | body)
            except urllib.error.HTTPError as answer:
                said = _said(answer)
                if answer.code < 500:
                    raise MeshRefused(answer.code, said.get("error", ""), said.get("detail", str(answer))) from answer
                problem, is_gone = said.get("detail", str(answer)), said.get("error") == "unavailable"
            except (OSError, HTTPException) as failure:
                problem, is_gone = str(failure), True
            if is_gone and url is None:
                self._first = (first + 1) % len(self._options.urls)
            if time.monotonic() >= until:
                raise MeshUnavailable(f"{address}{path} did not do it in time: {problem}")
            time.sleep(RETRY_AFTER)

    def _call(self, url: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._options.token is not None:
            headers["Authorization"] = f"Bearer {self._options.token}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=ANSWER_WITHIN, context=self._context) as answer:
            return json.load(answer)


def _said(answer: urllib.error.HTTPError) -> dict[str, str]:
    try:
        said = json.load(answer)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}

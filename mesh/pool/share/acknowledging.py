"""What share members say about what they have acquired: checked for each partition as a whole, then done, or not at
all.

The order of the checks is a broker's (SharePartition.acknowledge); below the committable offset nothing is left to
say, so that is no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mesh.pool.common.delivery_events import DeliveryEventType
from mesh.pool.common.history import Cause
from mesh.pool.common.outbox import CurrentShareSettings
from mesh.pool.fetch.serving import Serving
from mesh.pool.share.requests import AcknowledgeType
from mesh.pool.state.acquired import Holding, Settling
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Partition
from mesh.records.span_lists import at_or_above, joined, within, without
from mesh.records.spans import Span
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import AcknowledgementBatch

SETTLES = frozenset({AcknowledgeType.GAP, AcknowledgeType.ACCEPT, AcknowledgeType.REJECT})
"""After these a member may say so again, until it was told that it is stored."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What became of the acknowledgements of one partition. settling: what has to be stored before they are
    answered."""

    error: ErrorCode
    settling: Sequence[Settling] = ()


@dataclass(slots=True)
class _Said:
    """What was said about a partition, by type; each ascending, and no offset is in two of them."""

    spans: dict[AcknowledgeType, list[Span]] = field(default_factory=dict)

    def of(self, *kinds: AcknowledgeType) -> list[Span]:
        return joined(sorted(span for kind in kinds for span in self.spans.get(kind, ())))


class Acknowledging:
    """Takes what share members of one pool acknowledge."""

    def __init__(self, serving: Serving, settings: CurrentShareSettings) -> None:
        self._serving = serving
        self._settings = settings

    def acknowledge(
        self, member: Member, partition: Partition, batches: Sequence[AcknowledgementBatch], renews: bool, now: float
    ) -> Acknowledged:
        """All batches of one partition. renews: whether the request is one that may renew locks."""
        if not _are_valid(batches, AcknowledgeType.RENEW if renews else AcknowledgeType.REJECT):
            return Acknowledged(ErrorCode.INVALID_REQUEST)
        assert member.share is not None
        holding = member.share.of(partition.source)
        whole = _said(batches)
        said = _above(whole, partition.ledger.committable)
        again = [each for each in holding.settling if within([each.span], whole.of(*SETTLES))]
        error = self._refuse(said, holding, again)
        if error is not ErrorCode.NONE:
            return Acknowledged(error)
        return Acknowledged(ErrorCode.NONE, [*again, *self._do(member, partition, holding, said, now)])

    def _refuse(self, said: _Said, holding: Holding, again: Iterable[Settling]) -> ErrorCode:
        """Why nothing of it is done. again: what of it was done before, and the member was not told."""
        renewed = said.of(AcknowledgeType.RENEW)
        if renewed and not self._settings.value.may_renew:
            return ErrorCode.INVALID_RECORD_STATE
        if holding.missing(renewed) or holding.missing(said.of(AcknowledgeType.RELEASE)):
            return ErrorCode.INVALID_RECORD_STATE
        missing = holding.missing(said.of(*SETTLES))
        is_left = missing and without(missing, joined(sorted(each.span for each in again)))
        return ErrorCode.INVALID_RECORD_STATE if is_left else ErrorCode.NONE

    def _do(self, member: Member, partition: Partition, holding: Holding, said: _Said, now: float) -> list[Settling]:
        source, releases = partition.source, self._serving.share_releases
        settling: list[Settling] = []
        held = [each.span for each in holding]
        if settled := joined(within(said.of(AcknowledgeType.GAP, AcknowledgeType.ACCEPT), held)):
            settling += self._settle(member, partition, holding, settled, now)
        if rejected := joined(within(said.of(AcknowledgeType.REJECT), held)):
            releases.reject(member, source, rejected)
            settling += [Settling(span) for span in rejected]
        if released := said.of(AcknowledgeType.RELEASE):
            releases.release(member, source, released, Cause.RELEASED, now)
        if renewed := said.of(AcknowledgeType.RENEW):
            deadline = now + self._settings.value.lock
            holding.renew(renewed, deadline)
            releases.watch(member, source, holding, deadline)
        holding.settling = [each for each in holding.settling if each.span.last >= partition.ledger.stored.offset]
        holding.settling += settling
        return settling

    def _settle(
        self, member: Member, partition: Partition, holding: Holding, spans: Sequence[Span], now: float
    ) -> list[Settling]:
        member.settled = now
        for span in spans:
            for acquired in holding.take([span]):
                self._serving.distribution.free(member, len(acquired))
                self._serving.distribution.acquiring.unlock(partition, len(acquired))
            partition.ledger.settle(span.first, span.last)
        self._serving.distribution.touched.add(partition)
        self._serving.delivery_events.add(DeliveryEventType.ACKNOWLEDGED, partition.source, spans, member.holder)
        return [Settling(span, partition.ledger.version) for span in spans]


def _are_valid(batches: Sequence[AcknowledgementBatch], highest: AcknowledgeType) -> bool:
    behind = -1
    for first, last, types in batches:
        if first > last or first < behind or len(types) not in (1, last - first + 1) or max(types) > highest:
            return False
        behind = last + 1
    return True


def _said(batches: Iterable[AcknowledgementBatch]) -> _Said:
    said = _Said()
    for first, last, types in batches:
        if len(types) == 1 or types.count(types[0]) == len(types):
            said.spans.setdefault(AcknowledgeType(types[0]), []).append(Span(first, last))
            continue
        begin = 0
        for index in range(1, len(types) + 1):
            if index == len(types) or types[index] != types[begin]:
                span = Span(first + begin, first + index - 1)
                said.spans.setdefault(AcknowledgeType(types[begin]), []).append(span)
                begin = index
    return said


def _above(said: _Said, committable: int) -> _Said:
    return _Said({kind: at_or_above(spans, committable) for kind, spans in said.spans.items()})

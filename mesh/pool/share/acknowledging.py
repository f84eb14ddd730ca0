"""Acknowledgements of share members. Those of one partition are checked together, and carried out completely or not at
all.

The order of the checks is that of a broker (SharePartition.acknowledge). Offsets below the committable one are settled
already, so acknowledging them is no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mesh.pool.common.delivery_events import DeliveryEventType
from mesh.pool.common.history import Cause
from mesh.pool.common.outbox import CurrentShareSettings
from mesh.pool.fetch.serving import Serving
from mesh.pool.share.requests import AcknowledgeType
from mesh.pool.state.acquired import CarriedOut, Holding, Settling
from mesh.pool.state.member import Member
from mesh.pool.state.partition import Partition
from mesh.records.span_lists import at_or_above, disjoint, merge_adjacent, parts_of, within, without
from mesh.records.spans import Span
from mesh.wire.errors import ErrorCode
from mesh.wire.messages import AcknowledgementBatch

SETTLES = frozenset({AcknowledgeType.GAP, AcknowledgeType.ACCEPT, AcknowledgeType.REJECT})
"""The types that settle an offset. A member may repeat such an acknowledgement until it hears that it is stored."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The result of the acknowledgements of one partition. settling: spans that must be stored before the request is
    answered."""

    error: ErrorCode
    settling: Sequence[Settling] = ()


@dataclass(slots=True)
class _SpansByType:
    """The acknowledgements of one partition, by type. The spans of each type are ascending, and no offset is in two
    spans."""

    spans: dict[AcknowledgeType, list[Span]] = field(default_factory=dict)

    def of(self, *kinds: AcknowledgeType) -> list[Span]:
        found = [self.spans[kind] for kind in kinds if kind in self.spans]
        if len(found) == 1:
            return merge_adjacent(found[0])
        return merge_adjacent(sorted(span for spans in found for span in spans))


class Acknowledging:
    """Carries out the acknowledgements of share members of one pool."""

    def __init__(self, serving: Serving, settings: CurrentShareSettings) -> None:
        self._serving = serving
        self._settings = settings

    def acknowledge(
        self, member: Member, partition: Partition, batches: Sequence[AcknowledgementBatch], renews: bool, now: float
    ) -> Acknowledged:
        """Carries out all acknowledgements of one partition, or none with an error. renews: whether the request may
        renew locks."""
        if not _are_valid(batches, AcknowledgeType.RENEW if renews else AcknowledgeType.REJECT):
            return Acknowledged(ErrorCode.INVALID_REQUEST)
        assert member.share is not None
        holding = member.share.of(partition.source)
        whole = _spans_by_type(batches)
        by_type = _above(whole, partition.ledger.committable)
        settled = whole.of(*SETTLES) if holding.carried_out else []
        repeated = [each for each in holding.carried_out if _repeats(each, settled)]
        again = [one for each in repeated for one in each.settling if parts_of(one.span, settled)]
        error = self._refuse(by_type, holding, again)
        if error is not ErrorCode.NONE:
            return Acknowledged(error)
        held = [each.span for each in holding] if again else None
        settling = self._do(member, partition, holding, by_type, held, now)
        released, renewed = by_type.of(AcknowledgeType.RELEASE), by_type.of(AcknowledgeType.RENEW)
        stored = partition.ledger.stored.offset
        holding.carried_out = [each for each in holding.carried_out if each in repeated or each.last >= stored]
        if settling:
            holding.carried_out.append(CarriedOut(settling, released, renewed))
        elif repeated:
            repeated[0].add(released, renewed)
        return Acknowledged(ErrorCode.NONE, [*again, *settling])

    def _refuse(self, by_type: _SpansByType, holding: Holding, again: Iterable[Settling]) -> ErrorCode:
        """Returns the error for which none of the acknowledgements is carried out. again: settled spans of which the
        member has no answer.

        Also a release and a renewal that was carried out, while the member has no answer, is no error. Otherwise the
        member would be told that all of its request failed, and its accepted records would never come again.
        """
        if by_type.spans.get(AcknowledgeType.RENEW) and not self._settings.value.may_renew:
            return ErrorCode.INVALID_RECORD_STATE
        done = {
            AcknowledgeType.RENEW: (each.renewed for each in holding.carried_out),
            AcknowledgeType.RELEASE: (each.released for each in holding.carried_out),
        }
        for kind, before in done.items():
            missing = holding.missing(by_type.of(kind))
            if missing and without(missing, disjoint(span for spans in before for span in spans)):
                return ErrorCode.INVALID_RECORD_STATE
        missing = holding.missing(by_type.of(*SETTLES))
        is_left = missing and without(missing, merge_adjacent(sorted(each.span for each in again)))
        return ErrorCode.INVALID_RECORD_STATE if is_left else ErrorCode.NONE

    def _do(
        self,
        member: Member,
        partition: Partition,
        holding: Holding,
        by_type: _SpansByType,
        held: Sequence[Span] | None,
        now: float,
    ) -> list[Settling]:
        """Carries out acknowledgements. held: the spans that the member holds, if the acknowledgements may cover more;
        else None."""
        source, releases = partition.source, self._serving.share_releases
        settling: list[Settling] = []
        if settled := _of_these(by_type.of(AcknowledgeType.GAP, AcknowledgeType.ACCEPT), held):
            settling += self._settle(member, partition, holding, settled, now)
        if rejected := _of_these(by_type.of(AcknowledgeType.REJECT), held):
            releases.reject(member, source, rejected)
            settling += [Settling(span) for span in rejected]
        if released := by_type.of(AcknowledgeType.RELEASE):
            releases.release(member, source, released, Cause.RELEASED, now)
        if renewed := by_type.of(AcknowledgeType.RENEW):
            deadline = now + self._settings.value.lock
            holding.renew(renewed, deadline)
            releases.watch(member, source, holding, deadline)
        return settling

    def _settle(
        self, member: Member, partition: Partition, holding: Holding, spans: Sequence[Span], now: float
    ) -> list[Settling]:
        member.settled_at = now
        for span in spans:
            for acquired in holding.take([span]):
                self._serving.distribution.free(member, len(acquired))
                self._serving.distribution.acquiring.unlock(partition, len(acquired))
            partition.ledger.settle(span.first, span.last)
        self._serving.distribution.touched.add(partition)
        self._serving.delivery_events.add(DeliveryEventType.ACKNOWLEDGED, partition.source, spans, member.holder)
        return [Settling(span, partition.ledger.version) for span in spans]


def _repeats(request: CarriedOut, settled: Sequence[Span]) -> bool:
    """Returns whether a member says something again that this request has settled."""
    return any(parts_of(each.span, settled) for each in request.settling)


def _are_valid(batches: Sequence[AcknowledgementBatch], highest: AcknowledgeType) -> bool:
    behind = -1
    for first, last, types in batches:
        if first > last or first < behind or len(types) not in (1, last - first + 1) or max(types) > highest:
            return False
        behind = last + 1
    return True


def _spans_by_type(batches: Iterable[AcknowledgementBatch]) -> _SpansByType:
    by_type = _SpansByType()
    for first, last, types in batches:
        if len(types) == 1 or types.count(types[0]) == len(types):
            by_type.spans.setdefault(AcknowledgeType(types[0]), []).append(Span(first, last))
            continue
        begin = 0
        for index in range(1, len(types) + 1):
            if index == len(types) or types[index] != types[begin]:
                span = Span(first + begin, first + index - 1)
                by_type.spans.setdefault(AcknowledgeType(types[begin]), []).append(span)
                begin = index
    return by_type


def _of_these(spans: list[Span], held: Sequence[Span] | None) -> list[Span]:
    return spans if held is None else merge_adjacent(within(spans, held))


def _above(by_type: _SpansByType, committable: int) -> _SpansByType:
    if all(spans[0].first >= committable for spans in by_type.spans.values()):
        return by_type
    return _SpansByType({kind: at_or_above(spans, committable) for kind, spans in by_type.spans.items()})

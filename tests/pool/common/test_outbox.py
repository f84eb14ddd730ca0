"""Effects leave the outbox in the order of the decisions, from whichever pools."""

from __future__ import annotations

from mesh.apis.answers import Answer
from mesh.pool.common.effects import RefreshTopics, Report
from mesh.pool.common.ids import GroupId
from mesh.pool.common.outbox import Outbox


def test_pools_share_the_outbox_of_their_virtual_cluster() -> None:
    outbox = Outbox()
    billing, audit = outbox.of_group(GroupId("billing")), outbox.of_group(GroupId("audit"))
    billing.answer(1, "one")
    outbox.put(RefreshTopics())
    audit.report("member joined", {"member": "m"})
    outbox.report("a group was refused", level="warning")
    assert outbox.take_all() == [
        Answer(1, "one"),
        RefreshTopics(),
        Report("member joined", {"group": "audit", "member": "m"}),
        Report("a group was refused", {}, "warning"),
    ]
    assert billing.take_all() == outbox.take_all() == []

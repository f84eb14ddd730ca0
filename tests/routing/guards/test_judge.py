"""The judge of one connection: its share sessions, and the present rules."""

from __future__ import annotations

from mesh.routing.guards.judge import Judge
from mesh.security.rules import Operation, ResourceType
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from tests.routing.guards.test_judging import Names, access, allow, offsets
from tests.routing.guards.test_share_sessions import ORDERS, SECRET, fetch

MINE = (
    allow(ResourceType.TOPIC, "orders", Operation.READ),
    allow(ResourceType.GROUP, "g", Operation.READ),
)


class Client:
    def __init__(self) -> None:
        self.access = access(*MINE)


def test_the_rules_of_now_count() -> None:
    client = Client()
    judge = Judge(client, Names())
    assert judge.judgement(ApiKey.LIST_OFFSETS, 5, offsets("orders")) is None
    assert judge.metadata({"topics": [{"name": "orders"}]}, 12).refused == ()
    client.access = access()
    assert judge.judgement(ApiKey.LIST_OFFSETS, 5, offsets("orders")) is not None
    assert judge.metadata({"topics": [{"name": "orders"}]}, 12).refused


def test_share_sessions_go_on_with_what_is_allowed() -> None:
    client = Client()
    judge = Judge(client, Names())
    assert judge.judgement(ApiKey.SHARE_FETCH, 1, fetch(0, ORDERS)) is None
    assert judge.judgement(ApiKey.SHARE_FETCH, 1, fetch(1)) is None
    found = judge.judgement(ApiKey.SHARE_FETCH, 1, fetch(2, SECRET))
    assert found is not None and found.request is not None and found.refused is not None
    assert found.request["topics"] == [], "the session goes on"
    assert [each["topic_id"] for each in found.refused["responses"]] == [SECRET]
    again = judge.judgement(ApiKey.SHARE_FETCH, 1, fetch(3))
    assert again is not None and again.refused == found.refused
    client.access = access(MINE[1])
    ended = judge.judgement(ApiKey.SHARE_FETCH, 1, fetch(4))
    assert ended is not None and ended.request is None
    assert ended.refused == {"error_code": ErrorCode.SHARE_SESSION_NOT_FOUND}


def test_what_is_allowed_now_is_added_to_the_session_of_the_broker() -> None:
    client = Client()
    judge = Judge(client, Names())
    assert judge.judgement(ApiKey.SHARE_FETCH, 1, fetch(0, ORDERS, SECRET)) is not None
    client.access = access(*MINE, allow(ResourceType.TOPIC, "secret", Operation.READ))
    for _ in range(2):  # once to see that it does not pass, once when it is divided
        found = judge.judgement(ApiKey.SHARE_FETCH, 1, fetch(1))
        assert found is not None and found.request is not None
        assert ([each["topic_id"] for each in found.request["topics"]], found.refused) == ([SECRET], None)
    assert judge.judgement(ApiKey.SHARE_FETCH, 1, fetch(2)) is None


def test_a_client_that_may_not_read_the_group_has_no_share_session() -> None:
    client = Client()
    judge = Judge(client, Names())
    client.access = access(MINE[0])
    for epoch in (0, 1, -1):
        for group in ("g", None):
            found = judge.judgement(ApiKey.SHARE_FETCH, 1, {**fetch(epoch, SECRET), "group_id": group})
            assert found is not None and found.refused == {"error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED}
            assert [each.name for each in found.refusals] == [group or ""]
    client.access = access(*MINE)
    ended = judge.judgement(ApiKey.SHARE_FETCH, 1, fetch(1))
    assert ended is not None and ended.refused == {"error_code": ErrorCode.SHARE_SESSION_NOT_FOUND}

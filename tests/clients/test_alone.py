"""Each client alone: consumes all of a topic of two clusters once, commits it, and shares it with another one of its
kind."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.clients.bench import JAVASCRIPT, Client, ClientBench
from tests.clients.selection import OFTEN, clients
from tests.integration.records import CODECS

COMMITS_WITHOUT_WAITING = (Client.CONFLUENT, Client.KAFKA_PYTHON, Client.JAVA)


@pytest.mark.smoke
@pytest.mark.parametrize("client", clients(quick=True, often=OFTEN))
def test_alone(bench: ClientBench, client: Client) -> None:
    """Records stored before and after it joined, its usual commits, a clean end."""
    bench.start_mesh()
    bench.feed(1_000)
    member = bench.joined(client, "member")
    bench.feed(1_000, rate=1_000)
    bench.account().assert_each_once()
    bench.until_all_committed()
    member.assert_running()
    assert member.events["assigned"] == 1, member.events
    assert not member.events["revoked"] + member.events["lost"] + member.events["error"], member.events
    member.close()


@pytest.mark.parametrize("client", clients(COMMITS_WITHOUT_WAITING, often=OFTEN))
def test_commits_without_waiting(bench: ClientBench, client: Client) -> None:
    """No such client repeats a refused commit (after an upstream rebalance, say): its next commit covers the same
    records and more. So the test needs a next one, as always while records flow."""
    bench.start_mesh()
    member = bench.joined(client, "member", commit="async")
    bench.feed(2_000, rate=1_000)
    bench.account().assert_each_once()
    for _ in range(6):
        bench.feed(10, rate=100)
        with suppress(AssertionError):
            bench.until_all_committed(timeout=10)
            break
    else:
        raise AssertionError("none of its commits after another was stored")
    bench.account().assert_each_once()
    member.close()


@pytest.mark.parametrize("client", clients(often=(*OFTEN, Client.KAFKA_PYTHON)))
def test_two_share(bench: ClientBench, client: Client) -> None:
    bench.start_mesh()
    members = [bench.joined(client, name) for name in ("member-1", "member-2")]
    with bench.feeding_throughout(rate=1_500):
        for member in members:
            member.until_delivered(300)  # longer tests measure the fairness
    bench.account().assert_each_once()
    bench.until_all_committed()
    for member in members:
        assert not member.events["revoked"] + member.events["lost"] + member.events["error"], member.events
    bench.close_members()


@pytest.mark.parametrize("client", clients(JAVASCRIPT))
def test_codecs_that_a_client_does_not_know(bench: ClientBench, client: Client) -> None:
    """The librdkafka engine decodes all of them, and delivers records uncompressed."""
    bench.compress_with(*CODECS)
    bench.start_mesh(upstream={cluster.name: {"engine": "librdkafka"} for cluster in bench.clusters})
    member = bench.joined(client, "member")
    bench.feed(2_000)
    bench.account().assert_each_once()
    member.close()


@pytest.mark.long
def test_console_consumer(bench: ClientBench) -> None:
    """Its client makes a new group and commits nothing: receipt settles its records."""
    mesh = bench.start_mesh()
    bench.feed(1_000)
    arguments = ("--bootstrap-server", mesh.bootstrap_servers, "--topic", bench.topic, "--from-beginning")
    limits = ("--max-messages", "1000", "--timeout-ms", "30000")
    output = bench.clusters[0].run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments, *limits)
    values = sorted(line.partition("|")[0] for line in output.splitlines())
    assert values == sorted(
        "null" if each.record.value is None else identity for identity, each in bench.stored().items()
    )

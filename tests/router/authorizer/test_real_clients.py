"""Real clients of a relay with rules: each sees only the topics and groups that it may use, and uses them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.feeding import stored_upstream
from tests.integration.jars import missing_programs
from tests.integration.mesh_process import MeshProcess
from tests.integration.processes import START, eventually, free_port
from tests.router.authorizer.bed import Sides
from tests.router.authorizer.rules import MINE, OTHER, PUBLIC, SECRET
from tests.router.authorizer.sides import PASSWORD

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.skipif(bool(missing_programs()), reason="a real Apache Kafka needs Java 17 and Maven"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("authorizer"),
]
COUNT = 300
EXAMPLE = Path(__file__).parents[3] / "config" / "relay-rules.yaml"


def of(sides: Sides, user: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": sides.mesh.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
        "log_level": 0,
        **more,
    }


def outcomes(sides: Sides, user: str, topics: list[str], **more: Any) -> dict[str, set[str]]:
    """The outcomes of records written to these topics in turn; "" for a stored one."""
    found: dict[str, set[str]] = {topic: set() for topic in topics}
    producer = Producer(of(sides, user, **{"linger.ms": 50, "message.timeout.ms": 30_000, **more}))
    for number in range(COUNT):
        for topic in topics:
            try:
                producer.produce(
                    topic,
                    b"%d" % number,
                    partition=0,
                    on_delivery=lambda error, _, topic=topic: found[topic].add(error.name() if error else ""),  # type: ignore[misc]
                )
            except KafkaException as refused:  # librdkafka has learned it from metadata meanwhile
                found[topic].add(refused.args[0].name())
    assert producer.flush(60) == 0
    return found


def test_confluent_sees_and_reads_what_it_may(sides: Sides) -> None:
    assert outcomes(sides, "owner", [MINE]) == {MINE: {""}}
    reader = Consumer(of(sides, "reader", **{"group.id": MINE, "auto.offset.reset": "earliest"}))
    assert set(reader.list_topics(timeout=20).topics) == {MINE, PUBLIC}
    reader.subscribe([MINE, PUBLIC])
    found: list[bytes] = []

    def has_read() -> bool:
        found.extend(each.value() or b"" for each in reader.consume(100, 0.5) if each.error() is None)
        return len(found) >= COUNT

    eventually("all records", has_read, timeout=START)
    reader.commit(asynchronous=False)
    assert reader.committed([TopicPartition(MINE, 0)], timeout=20)[0].offset >= COUNT
    reader.close()


def test_confluent_is_refused_what_it_may_not(sides: Sides) -> None:
    for group, topic, code in (
        (MINE, SECRET, KafkaError.TOPIC_AUTHORIZATION_FAILED),
        (OTHER, MINE, KafkaError.GROUP_AUTHORIZATION_FAILED),
    ):
        reader = Consumer(of(sides, "reader", **{"group.id": group}))
        reader.subscribe([topic])
        told: set[int] = set()

        def is_refused(reader: Consumer = reader, told: set[int] = told) -> bool:
            told.update(error.code() for each in reader.consume(10, 0.5) if (error := each.error()) is not None)
            return bool(told)

        eventually("an error", is_refused, timeout=START)
        reader.close()
        assert told == {code}


def test_what_is_allowed_of_a_produce_is_stored_once_and_in_order(sides: Sides) -> None:
    """An idempotent producer whose requests name a topic that it may write to and one that it may not write to."""
    before = len(list(stored_upstream(sides.broker, MINE)))
    told = outcomes(sides, "owner", [MINE, SECRET], **{"enable.idempotence": True})
    assert told == {MINE: {""}, SECRET: {"TOPIC_AUTHORIZATION_FAILED"}}
    stored = [each.record.value for each in stored_upstream(sides.broker, MINE)][before:]
    assert stored == [b"%d" % number for number in range(COUNT)]
    assert not list(stored_upstream(sides.broker, SECRET)), "nobody has written there"


def test_transactions_need_their_id(sides: Sides) -> None:
    producer = Producer(of(sides, "owner", **{"transactional.id": MINE}))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(MINE, b"in a transaction", partition=0)
    producer.commit_transaction(30)
    stranger = Producer(of(sides, "owner", **{"transactional.id": OTHER}))
    with pytest.raises(KafkaException) as refused:
        stranger.init_transactions(30)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_an_operator_sees_all_groups_and_a_reader_its_own(sides: Sides) -> None:
    def groups(user: str) -> set[str]:
        admin = AdminClient(of(sides, user))  # must outlive its futures
        return {each.group_id for each in admin.list_consumer_groups().result(30).valid}

    assert MINE in groups("operator") and groups("nobody") == set()


def java(sides: Sides, folder: Path, user: str, tool: str, *arguments: str) -> str:
    """The output of one of Kafka's tools, with its errors."""
    command = java_command(sides, folder, user, tool, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def java_command(sides: Sides, folder: Path, user: str, tool: str, *arguments: str) -> list[str]:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    config = folder / f"{user}.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={login} username="{user}" password="{PASSWORD}";\n'
    )
    where = ("--bootstrap-server", sides.mesh.bootstrap_servers, "--command-config", str(config))
    return sides.broker.java(f"org.apache.kafka.tools.{tool}", *where, *arguments)


def test_java_tools_list_the_topics_that_a_client_may_see(sides: Sides, tmp_path: Path) -> None:
    assert java(sides, tmp_path, "reader", "TopicCommand", "--list").split() == [MINE, PUBLIC]
    assert SECRET in java(sides, tmp_path, "describer", "TopicCommand", "--list").split()


def test_the_java_consumer_reads_one_topic_of_three(sides: Sides, tmp_path: Path) -> None:
    outcomes(sides, "owner", [MINE])

    def consumed(topic: str, *more: str) -> str:
        end = ("--max-messages", "5", "--timeout-ms", "20000", "--group", MINE, "--from-beginning")
        return java(sides, tmp_path, "reader", "consumer.ConsoleConsumer", "--topic", topic, *end, *more)

    assert "Processed a total of 5 messages" in consumed(MINE)
    assert "TopicAuthorizationException" in consumed(SECRET)


def test_java_transactions_need_their_id(sides: Sides, tmp_path: Path) -> None:
    """In the second protocol (KIP-890), in which a Produce adds its partitions to the transaction."""

    def produced(transactional_id: str) -> str:
        load = ("--num-records", "20", "--record-size", "10", "--throughput", "-1", "--transaction-duration-ms", "100")
        names = ("--topic", MINE, "--transactional-id", transactional_id)
        return java(sides, tmp_path, "owner", "ProducerPerformance", *names, *load)

    assert "20 records sent" in produced(MINE)
    assert "TransactionalIdAuthorizationException" in produced(OTHER)


def test_a_share_consumer_reads_what_it_may(sides: Sides, tmp_path: Path) -> None:
    """Its group begins at the end of the log."""
    arguments = ("--topic", MINE, "--group", "public.share", "--max-messages", "5", "--timeout-ms", "60000")
    command = java_command(sides, tmp_path, "reader", "consumer.ConsoleShareConsumer", *arguments)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as consumer:

        def has_ended() -> bool:
            outcomes(sides, "owner", [MINE])
            return consumer.poll() is not None

        eventually("five records", has_ended, timeout=START, interval=0.5)
        assert consumer.stdout is not None
        assert "Processed a total of 5 messages" in consumer.stdout.read()


def test_kcat_lists_what_it_may_see(sides: Sides) -> None:
    options = of(sides, "reader")
    address = options.pop("bootstrap.servers")
    flags = [flag for key, value in options.items() for flag in ("-X", f"{key}={value}")]
    listed = subprocess.run(["kcat", "-b", address, "-L", "-J", *flags], capture_output=True, timeout=60, check=True)
    assert {each["topic"] for each in json.loads(listed.stdout)["topics"]} == {MINE, PUBLIC}


def test_the_example(sides: Sides, tmp_path: Path) -> None:
    """`config/relay-rules.yaml`, with other addresses and passwords."""
    sides.broker.create_topic("orders", 1)
    configuration = yaml.safe_load(EXAMPLE.read_text())
    configuration.pop("admin")
    configuration["clusters"][0]["bootstrap_servers"] = sides.broker.bootstrap_servers
    front = configuration["virtual_clusters"][0]
    front |= {"listen": f"127.0.0.1:{free_port()}", "nodes": {"ports": free_port(), "ids": [1]}}
    for user in front["sasl"]["users"]:
        user["password"] = PASSWORD
    mesh = MeshProcess(tmp_path, "example", configuration)
    try:
        seen = {}
        for user in ("shop", "billing", "operator"):
            admin = AdminClient(of(sides, user, **{"bootstrap.servers": front["listen"]}))
            seen[user] = set(admin.list_topics(timeout=30).topics)
        assert seen["shop"] == seen["billing"] == {"orders"}
        assert seen["operator"] >= {"orders", MINE, SECRET}
    finally:
        mesh.kill()

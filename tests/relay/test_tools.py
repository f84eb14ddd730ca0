"""The output of Kafka's own tools is the same through a relay and directly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.jars import missing_programs
from tests.integration.raw import Endpoint
from tests.relay.cluster import SeveralBrokers
from tests.relay.front import Front, relayed
from tests.relay.tools import JavaTools, comparable

pytestmark = [
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.timeout(1_200),
    pytest.mark.xdist_group("tools through a relay"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]

PLACES = "1:101:1000000,101:1000000:1,1000000:1:101"
GROUPS = "consumer.group.ConsumerGroupCommand"
SHARE_GROUPS = "consumer.group.ShareGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"


@dataclass(frozen=True, slots=True)
class Case:
    """A tool and its arguments, with NAME for each side's own names, FOLDER for its files. has_numbers: as for
    `comparable`. own_lines: only lines with its name count. differs: parts of other lines that may differ. code: its
    exit code. is_alone: it needs a separate process. leaves: a topic that it makes for every side."""

    tool: str
    arguments: str
    has_numbers: bool = False
    own_lines: bool = False
    differs: str = ""
    code: int = 0
    is_alone: bool = False
    leaves: str = ""

    def __str__(self) -> str:
        return f"{self.tool.rpartition('.')[2]} {self.arguments}"


CASES: Sequence[Case] = (
    Case("TopicCommand", f"--create --topic NAME --replica-assignment {PLACES}"),
    Case("TopicCommand", "--create --topic NAME --partitions 1", code=1),
    Case("TopicCommand", "--describe --topic NAME"),
    Case("TopicCommand", "--list", own_lines=True),
    Case("TopicCommand", "--create --topic NAME-single --replica-assignment 101:1"),
    Case("ClusterTool", "cluster-id"),
    Case("ClusterTool", "list-endpoints"),
    Case(CONFIGS, "--alter --entity-type topics --entity-name NAME --add-config retention.ms=86400000"),
    Case(CONFIGS, "--describe --entity-type topics --entity-name NAME --all"),
    Case(CONFIGS, "--describe --entity-type brokers --entity-name 101 --all"),
    Case(CONFIGS, "--describe --entity-type broker-loggers --entity-name 1000000"),
    Case(CONFIGS, "--alter --entity-type clients --entity-name NAME --add-config producer_byte_rate=1000000"),
    Case(CONFIGS, "--describe --entity-type clients --entity-name NAME"),
    Case(
        CONFIGS, "--alter --entity-type groups --entity-name NAME-shares --add-config share.auto.offset.reset=earliest"
    ),
    Case("VerifiableProducer", "--topic NAME-single --max-messages 200", is_alone=True),
    Case("VerifiableProducer", "--topic NAME --max-messages 200 --repeating-keys 20", has_numbers=True, is_alone=True),
    Case("GetOffsetShell", "--topic NAME-single"),
    Case("GetOffsetShell", "--topic NAME-single --time -2"),
    Case("VerifiableConsumer", "--topic NAME-single --group-id NAME --max-messages 200 --reset-policy earliest"),
    Case(
        "VerifiableConsumer",
        "--topic NAME-single --group-id NAME-new --max-messages 200 --reset-policy earliest --group-protocol consumer",
    ),
    Case("VerifiableShareConsumer", "--topic NAME-single --group-id NAME-shares --max-messages 200", has_numbers=True),
    Case(GROUPS, "--list --state", own_lines=True),
    Case(GROUPS, "--describe --group NAME"),
    Case(GROUPS, "--describe --group NAME --state"),
    Case(GROUPS, "--describe --group NAME-new --members"),
    Case(GROUPS, "--reset-offsets --group NAME --topic NAME-single --to-earliest --execute"),
    Case(GROUPS, "--delete-offsets --group NAME --topic NAME-single"),
    Case(GROUPS, "--delete --group NAME"),
    Case(GROUPS, "--describe --group NAME"),
    Case(SHARE_GROUPS, "--list --state", own_lines=True),
    Case(SHARE_GROUPS, "--describe --group NAME-shares"),
    Case(SHARE_GROUPS, "--describe --group NAME-shares --state"),
    Case(SHARE_GROUPS, "--reset-offsets --group NAME-shares --topic NAME-single --to-earliest --execute"),
    Case(
        "ShareConsumerPerformance",
        "--topic NAME-single --group NAME-shares --num-records 100 --timeout 60000",
        has_numbers=True,
    ),
    Case(SHARE_GROUPS, "--delete --group NAME-shares"),
    Case("streams.StreamsGroupCommand", "--list"),
    Case("GroupsCommand", "--list", own_lines=True),
    Case("TransactionsCommand", "describe-producers --topic NAME-single --partition 0", has_numbers=True),
    Case("TransactionsCommand", "list", own_lines=True),
    Case("TransactionsCommand", "describe --transactional-id NAME", code=1),
    Case("TransactionsCommand", "find-hanging --broker-id 101"),
    Case("DeleteRecordsCommand", "--offset-json-file FOLDER/records.json"),
    Case("GetOffsetShell", "--topic NAME-single --time -2"),
    Case("reassign.ReassignPartitionsCommand", "--reassignment-json-file FOLDER/places.json --execute"),
    Case("reassign.ReassignPartitionsCommand", "--list"),
    Case("LeaderElectionCommand", "--election-type preferred --topic NAME --partition 1"),
    Case("LogDirsCommand", "--describe --topic-list NAME --broker-list 1,101,1000000", has_numbers=True),
    Case("FeatureCommand", "describe", has_numbers=True),
    Case("FeatureCommand", "version-mapping --release-version 4.0"),
    Case("MetadataQuorumCommand", "describe --status", has_numbers=True),
    Case("MetadataQuorumCommand", "describe --replication", has_numbers=True),
    Case("AclCommand", "--add --allow-principal User:alice --topic NAME --operation read"),
    Case("AclCommand", "--list --topic NAME"),
    Case("AclCommand", "--remove --topic NAME --force"),
    Case("ClientMetricsCommand", "--alter --name NAME --metrics a. --interval 1000"),
    Case("ClientMetricsCommand", "--describe --name NAME"),
    Case("ClientMetricsCommand", "--delete --name NAME"),
    Case("DelegationTokenCommand", "--describe", code=1),
    Case("BrokerApiVersionsCommand", "", differs="ShareGroupState"),
    Case("TopicCommand", "--create --topic NAME-compatible --replica-assignment 101"),
    Case(
        "ProducerPerformance",
        "--topic NAME --num-records 2000 --record-size 100 --throughput -1 --command-property acks=all",
        has_numbers=True,
    ),
    Case("ConsumerPerformance", "--topic NAME --num-records 2000 --timeout 60000", has_numbers=True),
    Case(
        "EndToEndLatency",
        "--topic NAME --num-records 50 --producer-acks all --record-size 50",
        has_numbers=True,
    ),
    Case(
        "ClientCompatibilityTest",
        "--topic NAME-compatible --offsets-for-times-supported true --cluster-id-supported true"
        " --expect-record-too-large-exception false --num-cluster-nodes 3 --create-topics-supported true"
        " --describe-acls-supported true --describe-configs-supported true --idempotent-producer-supported true",
        has_numbers=True,
        leaves="newtopic",
    ),
    Case("TopicCommand", "--delete --topic NAME"),
)
"""The cases in the order in which both sides run them."""


@dataclass(frozen=True, slots=True)
class Asking:
    """One side: its address, its own name, and its folder."""

    address: Endpoint
    name: str
    folder: Path

    def run(self, tools: JavaTools, case: Case) -> tuple[int, str]:
        text = case.arguments.replace("NAME", self.name).replace("FOLDER", str(self.folder))
        command = ["--bootstrap-server", str(self.address), *text.split()]
        if case.tool == "ClusterTool":
            command.insert(0, command.pop())
        run = tools.run_alone if case.is_alone else tools.run
        code, output = run(case.tool, *command)
        if case.leaves:
            tools.run("TopicCommand", *command[:2], "--delete", "--topic", case.leaves)
        return code, "\n".join(line for line in output.splitlines() if self._is_compared(line, case))

    def _is_compared(self, line: str, case: Case) -> bool:
        if case.own_lines and self.name not in line:
            return False
        return not case.differs or case.differs not in line

    def write_files(self) -> None:
        """The files that tools are given."""
        self.folder.mkdir()
        single = {"topic": f"{self.name}-single", "partition": 0}
        deleted = {"partitions": [{**single, "offset": 50}], "version": 1}
        self.folder.joinpath("records.json").write_text(json.dumps(deleted))
        moved = {"version": 1, "partitions": [{**single, "replicas": [1, 101]}]}
        self.folder.joinpath("places.json").write_text(json.dumps(moved))


@pytest.fixture(scope="module")
def front(cluster: SeveralBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with relayed(cluster, tmp_path_factory.mktemp("relay")) as front:
        yield front


@pytest.fixture(scope="module")
def sides(cluster: SeveralBrokers, front: Front, tmp_path_factory: pytest.TempPathFactory) -> tuple[Asking, Asking]:
    folder = tmp_path_factory.mktemp("sides")
    direct = Asking(Endpoint.of(cluster.bootstrap_servers), "side-1", folder / "side-1")
    through = Asking(front.bootstrap, "side-2", folder / "side-2")
    for side in (direct, through):
        side.write_files()
    return direct, through


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaTools]:
    tools = JavaTools(tmp_path_factory.mktemp("tools") / "tools.log")
    yield tools
    tools.close()


def test_output(front: Front, sides: tuple[Asking, Asking], tools: JavaTools) -> None:
    """One test: most cases need those before them."""
    direct, through = sides
    names = {str(told.port): str(own.port) for told, own in front.own_addresses.items()} | {through.name: direct.name}
    differing = {}
    for case in CASES:
        code, output = direct.run(tools, case)
        expected = comparable(output, {}, has_numbers=case.has_numbers)
        code_through, output_through = through.run(tools, case)
        found = comparable(output_through, names, has_numbers=case.has_numbers)
        if (code, code_through) != (case.code, case.code) or found != expected:
            differing[str(case)] = (code, output), (code_through, output_through)
    assert not differing

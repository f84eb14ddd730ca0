"""The command as people meet it: exit codes, and the output on each stream."""

from __future__ import annotations

import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from tests.app.running import COMMAND
from tests.integration.processes import completed

CONFIG = Path(__file__).parents[1] / "config"


def kafka_mesh(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return completed([*COMMAND, *arguments], environment={"COLUMNS": "120"} | environment)


def test_version() -> None:
    environment = {"PATH": "/usr/bin:/bin", "COLUMNS": "120"}
    command = [sys.executable, "-m", "mesh.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stdout) == (0, f"kafka-mesh {version('kafka-mesh')}\n")


def test_help_names_the_commands() -> None:
    done = kafka_mesh("--help")
    assert done.returncode == 0
    for command in ("run", "check", "demo", "status", "dlq"):
        assert command in done.stdout
    assert "KAFKA_MESH" not in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [[], ["run"], ["check"], ["frobnicate"], ["--frobnicate"], ["check", "x", "y"], ["demo", "--duration", "x"]],
)
def test_wrong_usage(arguments: list[str]) -> None:
    done = kafka_mesh(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    if arguments:
        assert done.stdout == ""
        assert "Usage" in done.stderr


def test_check_prints_what_was_understood() -> None:
    done = kafka_mesh("check", CONFIG / "orders.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert yaml.safe_load(done.stdout)["virtual_clusters"][0]["coordinator"] == "127.0.0.1:19093"


def test_check_prints_no_secret() -> None:
    done = kafka_mesh("check", CONFIG / "secure-upstream.yaml", EU_USERNAME="mesh-user", EU_PASSWORD="hunter2")
    assert (done.returncode, done.stderr) == (0, "")
    assert yaml.safe_load(done.stdout)["clusters"][0]["properties"]["sasl.password"] == "***"
    assert "mesh-user" not in done.stdout
    assert "hunter2" not in done.stdout


@pytest.mark.parametrize("command", ["run", "check"])
def test_every_mistake_is_listed(tmp_path: Path, command: str) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text(
        """
        budget: lots
        clusters: [{name: eu, bootstrap_servers: "h:1", properties: {bogus: 1, sasl.password: "${UNSET}"}}]
        virtual_clusters:
          - {name: a, listen: "0.0.0.0:1", target: {pool: {topics: [{prefix: "", cluster: mars}], groups: ["*"]}}}
        """
    )
    done = kafka_mesh(command, file)
    assert (done.returncode, done.stdout) == (2, "")
    heading, *mistakes = done.stderr.splitlines()
    assert heading == f"kafka-mesh: 6 mistakes in {file} (key: value: what is allowed)"
    assert [mistake.split(": ")[0] for mistake in mistakes] == [
        "  clusters[0].properties[sasl.password]",
        "  budget",
        "  virtual_clusters[0].advertise.listen",
        "  virtual_clusters[0].advertise.coordinator",
        "  clusters[0].properties.bogus",
        "  virtual_clusters[0].target.pool.topics[0].cluster",
    ]


def test_check_warns_of_passwords_in_the_clear(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    sasl = "\n    sasl: {mechanisms: [SCRAM-SHA-256, PLAIN], users: [{name: alice, password: sesam}]}\n    target:"
    file.write_text((CONFIG / "orders.yaml").read_text().replace("\n    target:", sasl))
    done = kafka_mesh("check", file)
    assert done.returncode == 0
    where = "virtual_clusters[0].sasl.mechanisms"
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"kafka-mesh: {file}: warning: {where}: PLAIN without tls: clients send their passwords")
    assert yaml.safe_load(done.stdout)["virtual_clusters"]


@pytest.mark.parametrize("command", ["run", "check"])
def test_missing_file(tmp_path: Path, command: str) -> None:
    done = kafka_mesh(command, tmp_path / "no.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith("kafka-mesh: a mistake in ")
    assert "No such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_files_of_a_listener_that_are_missing_are_named_once_each(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    security = f"""
    tls: {{certificate_file: {folder}/tls.crt, key_file: {folder}/tls.key}}
    sasl: {{mechanisms: [PLAIN], users_file: {folder}/users.yaml}}
    authorization: {{rules_file: {folder}/rules.yaml}}
    target:"""
    file = tmp_path / "mesh.yaml"
    file.write_text((CONFIG / "orders.yaml").read_text().replace("\n    target:", security))
    done = kafka_mesh("run", file)
    assert done.returncode == 2, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("  ")] == [
        f"  virtual_clusters[0].tls.certificate_file: {folder}/tls.crt: No such file or directory",
        f"  virtual_clusters[0].sasl.users_file: {folder}/users.yaml: No such file or directory",
        f"  virtual_clusters[0].authorization.rules_file: {folder}/rules.yaml: No such file or directory",
    ]


@pytest.mark.parametrize("command", ["check", "run"])
def test_rules_with_an_empty_name(tmp_path: Path, command: str) -> None:
    """Such a rule would be about all topics, since each name begins with an empty prefix."""
    rules = tmp_path / "rules.yaml"
    rules.write_text('rules: [{principals: ["User:alice"], groups: [g, "${TEAM}"], pattern_type: prefixed}]')
    own = '{principals: ["User:alice"], topics: ["${TEAM}"], transactional_ids: [""], operations: [all]}'
    file = tmp_path / "mesh.yaml"

    def told(authorization: str) -> list[str]:
        security = f"\n    authorization: {authorization}\n    target:"
        file.write_text((CONFIG / "orders.yaml").read_text().replace("\n    target:", security))
        done = kafka_mesh(command, file, TEAM="")
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
        return [line for line in done.stderr.splitlines() if line.startswith("  ")]

    allowed = "a name that is not empty; `*` stands for all"
    at = "  virtual_clusters[0].authorization"
    assert told(f"{{rules: [{own}]}}") == [
        f"{at}.rules[0].topics[0]: '${{TEAM}}': {allowed}",
        f"{at}.rules[0].transactional_ids[0]: '': {allowed}",
    ]
    assert told(f"{{rules_file: {rules}}}") == [f"{at}.rules_file.rules[0].groups[1]: '${{TEAM}}': {allowed}"]


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        file = tmp_path / "mesh.yaml"
        file.write_text((CONFIG / "orders.yaml").read_text().replace("127.0.0.1:9644", address))
        done = kafka_mesh("run", file)
    assert done.returncode == 2, done.stderr
    (mistake,) = [line for line in done.stderr.splitlines() if line.startswith("  ")]
    assert mistake.startswith(f"  admin.listen: {address}: an address that is free")
    assert "Traceback" not in done.stderr


def test_the_start_loads_nothing_heavy() -> None:
    code = "import sys, mesh.cli; print([name for name in sys.argv[1:] if name in sys.modules])"
    heavy = [
        "pydantic",
        "confluent_kafka",
        "kio",
        "anyio",
        "uvicorn",
        "structlog",
        "prometheus_client",
        "yaml",
        "mesh.app",
    ]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("arguments", [["list"], ["show"], ["redrive"]])
def test_dead_letters_of_pools_that_have_none(arguments: list[str]) -> None:
    more = ["eu/orders-0@1"] if arguments == ["show"] else []
    done = kafka_mesh("dlq", *arguments, CONFIG / "orders.yaml", *more)
    assert (done.returncode, done.stderr) == (
        1,
        "kafka-mesh: no pool of this configuration has dead_letters; configure it first\n",
    )

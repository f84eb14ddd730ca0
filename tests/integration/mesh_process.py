"""kafka-mesh as its users run it: a configuration file, a process, an admin address."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.kafka import KafkaCluster
from tests.integration.processes import START, ChildProcess, completed, eventually, free_port

ENGINE = os.environ.get("KAFKA_MESH_TEST_ENGINE", "auto")
"""`auto`, `raw` or `librdkafka`: the engine of all tests that start a mesh."""
FILES = os.environ.get("KAFKA_MESH_TEST_FILES")
"""The most open files of each mesh that tests start; None leaves the limit as it is."""
KAFKA_MESH = Path(sys.executable).with_name("kafka-mesh")


class StandIn(Protocol):
    """Stands in front of a mesh for clients: a relay, or a program that does more."""

    def stand_in_for(self, address: str) -> str:
        """The address to connect to instead of this one of the mesh."""
        ...


class MeshProcess:
    """`kafka-mesh run` with any configuration."""

    def __init__(self, folder: Path, name: str, configuration: Mapping[str, object]) -> None:
        """name: of its files. configuration: without `admin.listen`, or with one of 127.0.0.1. Returns when /readyz
        reports that it is ready."""
        admin = configuration.get("admin")
        listen = admin.get("listen") if isinstance(admin, Mapping) else None
        self._admin = free_port() if listen is None else int(str(listen).rpartition(":")[2])
        self._file = folder / f"{name}.yaml"
        self._log = folder / f"{name}.log"
        self.configure(configuration)
        self._process = self._launched()
        self._until_ready()

    def configure(self, configuration: Mapping[str, object]) -> None:
        """Writes its file again; it takes effect at a restart or a reload."""
        admin = configuration.get("admin")
        more = admin if isinstance(admin, Mapping) else {}
        whole = {**configuration, "admin": {"listen": f"127.0.0.1:{self._admin}", **more}}
        self._file.write_text(yaml.safe_dump(whole, sort_keys=False))

    def reload(self, configuration: Mapping[str, object]) -> str:
        """Uses another configuration from now on; returns the output of the command."""
        self.configure(configuration)
        done = completed([KAFKA_MESH, "reload", self._file])
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self._admin}"

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name with these labels."""
        return sum(value for found, value in self.samples(name) if labels.items() <= found.items())

    def samples(self, name: str) -> list[tuple[Mapping[str, str], float]]:
        """All samples of that name: labels and value."""
        families = list(text_string_to_metric_families(self._get("/metrics")))
        assert any(name.startswith(family.name) for family in families), f"there is no metric {name}"
        samples = (sample for family in families for sample in family.samples if sample.name == name)
        return [(sample.labels, sample.value) for sample in samples]

    def readiness(self) -> dict[str, Any]:
        """The answer of /readyz, and its status under `status`."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._admin}/readyz", timeout=5) as response:
                return {**json.load(response), "status": response.status}
        except urllib.error.HTTPError as refusal:
            return {**json.load(refusal), "status": refusal.code}

    def status(self) -> dict[str, Any]:
        """The answer of /status."""
        found: dict[str, Any] = json.loads(self._get("/status"))
        return found

    def log_entries(self) -> list[dict[str, Any]]:
        """All of its log entries."""
        lines = self._log.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def in_flight(self, client_id: str) -> float:
        """The number of uncommitted records that the members with that client.id hold."""
        return self.metric("kafka_mesh_in_flight_records", client_id=client_id)

    @property
    def file(self) -> Path:
        """Its configuration."""
        return self._file

    def stop(self, timeout: float = 15.0) -> None:
        """SIGTERM; raises AssertionError unless it exits with 0 within `timeout` seconds."""
        self.terminate()
        code = self._process.wait(timeout)
        assert code == 0, f"kafka-mesh exited with {code}; its log ends:\n{self._process.log_tail()}"

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        self._process.signal(signal.SIGTERM)

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.exit_code

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def freeze(self) -> None:
        """Makes it hang without closing its connections."""
        self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Ends `freeze`."""
        self._process.signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        """The id of the running process."""
        return self._process.pid

    def restart(self) -> None:
        """Starts it again on the same ports, after `kill` or `stop`; returns when it is ready."""
        self.launch()
        self._until_ready()

    def launch(self) -> None:
        """`restart` without waiting."""
        assert self._process.exit_code is not None, "only a mesh that was stopped or killed is started again"
        self._process = self._launched()

    def is_ready(self) -> bool:
        """True if /readyz reports it; raises AssertionError if the process has ended."""
        code = self._process.exit_code
        assert code is None, f"kafka-mesh exited with {code}; its log ends:\n{self._process.log_tail()}"
        try:
            return bool(self._get("/readyz"))
        except OSError:
            return False

    def _launched(self) -> ChildProcess:
        process = ChildProcess([KAFKA_MESH, "run", self._file], log=self._log)
        if FILES is not None:
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (int(FILES), int(FILES)))
        return process

    def _until_ready(self) -> None:
        try:
            eventually("/readyz", self.is_ready, timeout=START)
        except AssertionError:
            self._process.kill()
            raise

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._admin}{path}", timeout=30) as response:
            body: bytes = response.read()
            return body.decode()


class Mesh(MeshProcess):
    """`kafka-mesh run` with one virtual cluster. The topic of the same name on every cluster feeds each of its
    topics."""

    def __init__(
        self,
        clusters: Sequence[KafkaCluster],
        topics: Sequence[str],
        folder: Path,
        pool: Mapping[str, object],
        upstream: Mapping[str, Mapping[str, object]] | None = None,
        name: str = "mesh",
        relay: StandIn | None = None,
        listener: Mapping[str, object] = MappingProxyType({}),
        process: Mapping[str, object] = MappingProxyType({"process_id": "mesh-1"}),
    ) -> None:
        """pool: further keys of the pool target; upstream: keys of clusters, which go before the usual ones; name: of
        its files; relay: what clients connect to instead; listener: further keys of the virtual cluster; process:
        further keys of the file. Returns when /readyz says so."""
        port, coordinator = free_port(), free_port()
        listen = {"listen": f"127.0.0.1:{port}", "coordinator": f"127.0.0.1:{coordinator}"}
        advertise = {each: relay.stand_in_for(address) for each, address in listen.items()} if relay else listen
        self.bootstrap_servers = advertise["listen"]
        target = {
            "topics": [
                {"name": topic, "from": [{"cluster": cluster.name, "topic": topic} for cluster in clusters]}
                for topic in topics
            ],
            "groups": ["*"],
            "start": "earliest",
            **pool,
        }
        configuration = {
            **process,
            "clusters": [
                {
                    "name": each.name,
                    "bootstrap_servers": each.bootstrap_servers,
                    "engine": ENGINE,
                    **(upstream or {}).get(each.name, {}),
                }
                for each in clusters
            ],
            "virtual_clusters": [
                {
                    "name": "tested",
                    **listen,
                    "advertise": advertise,
                    "target": {"pool": target},
                    **listener,
                }
            ],
        }
        super().__init__(folder, name, configuration)

"""The Kubernetes example is valid, and says the same as the image, the configuration and the admin address."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from starlette.routing import Route

from mesh.admin.http import admin_app
from mesh.config import Config, load
from tests.config.kubernetes import kubernetes_validate

HERE: Final = Path(__file__).parents[2]
MANIFEST: Final = HERE / "config/kubernetes/kafka-mesh.yaml"
OBJECTS: Final[list[dict[str, Any]]] = list(yaml.safe_load_all(MANIFEST.read_text()))
VERSIONS: Final = ("1.28", "1.34")


def the(kind: str, name: str = "kafka-mesh") -> dict[str, Any]:
    (found,) = (each for each in OBJECTS if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


POD: Final = the("StatefulSet")["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]


def configuration(tmp_path: Path, pod: str) -> Config:
    file = tmp_path / "mesh.yaml"
    file.write_text(the("ConfigMap")["data"]["mesh.yaml"])
    return load(file, {"POD_NAME": pod})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", OBJECTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_it_is_what_kubernetes_accepts(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate().validate(manifest, version, strict=True)


def test_a_wrong_key_is_found() -> None:
    wrong = {**the("StatefulSet"), "spec": {**the("StatefulSet")["spec"], "replica": 2}}
    with pytest.raises(kubernetes_validate().ValidationError):
        kubernetes_validate().validate(wrong, VERSIONS[0], strict=True)


def test_two_processes_have_names_and_addresses_of_their_own(tmp_path: Path) -> None:
    assert the("StatefulSet")["spec"]["replicas"] == 2
    first, second = (configuration(tmp_path, f"kafka-mesh-{number}") for number in (0, 1))
    assert (first.process_id, second.process_id) == ("kafka-mesh-0", "kafka-mesh-1")
    service = the("Service", the("StatefulSet")["spec"]["serviceName"])
    assert service["spec"]["clusterIP"] == "None"
    for config in (first, second):
        (cluster,) = config.virtual_clusters
        host = f"{config.process_id}.{service['metadata']['name']}"
        assert cluster.advertise is not None
        assert str(cluster.advertise.listen) == f"{host}:{cluster.listen.port}"
        assert str(cluster.advertise.coordinator) == f"{host}:{cluster.coordinator.port}"


def test_the_processes_are_each_others_peers(tmp_path: Path) -> None:
    config = configuration(tmp_path, "kafka-mesh-0")
    service = the("Service", the("StatefulSet")["spec"]["serviceName"])
    assert config.peers is not None
    assert config.admin is not None
    assert config.peers.urls == (f"http://{service['metadata']['name']}:{config.admin.listen.port}",)
    # A name of a headless service stands for all pods, including starting and stopping ones: each is asked.
    assert service["spec"]["publishNotReadyAddresses"]


def test_ports_are_those_of_the_configuration(tmp_path: Path) -> None:
    config = configuration(tmp_path, "kafka-mesh-0")
    (cluster,) = config.virtual_clusters
    assert config.admin is not None
    expected = {
        "kafka": cluster.listen.port,
        "coordinator": cluster.coordinator.port,
        "admin": config.admin.listen.port,
    }
    assert {port["name"]: port["containerPort"] for port in CONTAINER["ports"]} == expected
    assert str(config.admin.listen.port) == POD["metadata"]["annotations"]["prometheus.io/port"]
    for name in ("kafka-mesh", "kafka-mesh-processes"):
        for port in the("Service", name)["spec"]["ports"]:
            assert port["targetPort"] in expected
            assert port["port"] == expected[port["targetPort"]]


def test_everything_selects_the_pods() -> None:
    labels = POD["metadata"]["labels"]
    selectors = [
        the("StatefulSet")["spec"]["selector"]["matchLabels"],
        the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        *(the("Service", name)["spec"]["selector"] for name in ("kafka-mesh", "kafka-mesh-processes")),
        *(each["labelSelector"]["matchLabels"] for each in POD["spec"]["topologySpreadConstraints"]),
    ]
    assert all(selector == labels for selector in selectors)


def test_probes_ask_what_the_admin_address_serves() -> None:
    served = {route.path for route in admin_app(None, None).routes if isinstance(route, Route)}  # type: ignore[arg-type]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = CONTAINER[probe]["httpGet"]
        assert asked["path"] in served
        assert asked["port"] == "admin"
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_stop_has_the_time_it_may_take(tmp_path: Path) -> None:
    config = configuration(tmp_path, "kafka-mesh-0")
    assert POD["spec"]["terminationGracePeriodSeconds"] > config.drain_timeout + 10


def test_memory_holds_the_budget_and_the_process(tmp_path: Path) -> None:
    amount = re.fullmatch(r"(\d+)Gi", CONTAINER["resources"]["limits"]["memory"])
    assert amount is not None
    assert int(amount[1]) << 30 > configuration(tmp_path, "kafka-mesh-0").budget + (400 << 20)


def test_it_runs_as_the_image_does() -> None:
    image = (HERE / "Dockerfile").read_text()
    user = re.search(r"^USER (\d+)$", image, re.MULTILINE)
    assert user is not None
    assert POD["spec"]["securityContext"]["runAsUser"] == int(user[1])
    command = re.search(r"^CMD (.+)$", image, re.MULTILINE)
    assert command is not None
    assert CONTAINER["args"] == yaml.safe_load(command[1])
    (mount,) = CONTAINER["volumeMounts"]
    assert CONTAINER["args"][-1] == f"{mount['mountPath']}/mesh.yaml"
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]

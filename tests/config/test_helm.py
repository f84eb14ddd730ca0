"""The Helm chart makes the objects of the Kubernetes example, and others that Kubernetes accepts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mesh.config import load
from tests.config.kubernetes import kubernetes_validate
from tests.config.test_kubernetes import HERE, OBJECTS, VERSIONS
from tests.integration.building import built_once

pytestmark = pytest.mark.long

CHART: Final = HERE / "config/helm/kafka-mesh"
HELM: Final = "3.22.0"
Objects = dict[tuple[str, str], dict[str, Any]]

RELAY: Final = {
    "name": "edge",
    "image": {"repository": "registry.example.com/kafka-mesh", "tag": "1", "pullSecrets": [{"name": "registry"}]},
    "replicas": 1,
    "ports": [
        {"name": "any", "port": 19092},
        {"name": "node-1", "port": 19101},
        {"name": "node-2", "port": 19102},
        {"name": "admin", "port": 9644},
    ],
    "bootstrap": "any",
    "env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "eu", "key": "password"}}}],
    "secrets": [{"name": "eu-ca", "path": "/etc/kafka-mesh-secrets/eu"}],
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "kafka", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
}


@pytest.fixture(scope="module")
def helm() -> Path:
    """The program, built once by Go."""
    if shutil.which("go") is None:
        pytest.skip("the Helm chart is rendered by Helm, which needs Go")
    module = f"helm.sh/helm/v3/cmd/helm@v{HELM}"

    def build_into(folder: Path) -> None:
        subprocess.run(["go", "install", module], env={**os.environ, "GOBIN": str(folder)}, check=True, timeout=900)

    return built_once(HERE / ".cache" / "helm" / HELM, build_into) / "helm"


def rendered(helm: Path, tmp_path: Path, values: dict[str, Any], version: str = VERSIONS[-1]) -> Objects:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    command: list[str | Path] = [helm, "template", "mesh", CHART, "--kube-version", version, "--values", file]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [each for each in yaml.safe_load_all(done.stdout) if each]
    for each in found:
        kubernetes_validate().validate(each, version, strict=True)
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def test_it_is_linted(helm: Path) -> None:
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_its_defaults_are_the_example(helm: Path, tmp_path: Path, version: str) -> None:
    """Except for the pull policy, and the restart of pods for a changed configuration."""
    found = rendered(helm, tmp_path, {}, version)
    pod = found["StatefulSet", "kafka-mesh"]["spec"]["template"]
    assert len(pod["metadata"]["annotations"].pop("kafka-mesh/configuration")) == 64
    (container,) = pod["spec"]["containers"]
    assert container.pop("imagePullPolicy") == "IfNotPresent"
    expected: Objects = {(each["kind"], each["metadata"]["name"]): each for each in OBJECTS}
    assert found == expected


def test_every_value_reaches_its_object(helm: Path, tmp_path: Path) -> None:
    config = HERE / "config/relay.yaml"
    found = rendered(helm, tmp_path, {**RELAY, "config": config.read_text()})
    assert {name for _, name in found} == {"edge", "edge-processes"}
    pod = found["StatefulSet", "edge"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example.com/kafka-mesh:1"
    assert [{"name": each["name"], "port": each["containerPort"]} for each in container["ports"]] == RELAY["ports"]
    assert [each["name"] for each in container["env"]] == ["POD_NAME", "PASSWORD"]
    mounted = {"name": "eu-ca", "mountPath": "/etc/kafka-mesh-secrets/eu", "readOnly": True}
    assert container["volumeMounts"][-1] == mounted
    assert pod["volumes"][-1] == {"name": "eu-ca", "secret": {"secretName": "eu-ca"}}
    for name in ("nodeSelector", "tolerations", "affinity"):
        assert pod[name] == RELAY[name]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    (port,) = found["Service", "edge"]["spec"]["ports"]
    assert port == {"name": "any", "port": 19092, "targetPort": "any"}
    assert len(found["Service", "edge-processes"]["spec"]["ports"]) == 4
    file = tmp_path / "mesh.yaml"
    file.write_text(found["ConfigMap", "edge"]["data"]["mesh.yaml"])
    assert load(file, {"POD_NAME": "edge-0"}) == load(config, {"POD_NAME": "edge-0"})


def test_a_changed_configuration_restarts_the_pods(helm: Path, tmp_path: Path) -> None:
    def annotation(config: str) -> str:
        pod = rendered(helm, tmp_path, {**RELAY, "config": config})["StatefulSet", "edge"]["spec"]["template"]
        return str(pod["metadata"]["annotations"]["kafka-mesh/configuration"])

    assert annotation("budget: 1GiB") != annotation("budget: 2GiB")


def test_a_bootstrap_port_that_is_not_there_is_a_mistake(helm: Path, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("bootstrap: nothing")
    command: list[str | Path] = [helm, "template", CHART, "--kube-version", VERSIONS[0], "--values", file]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert 'bootstrap: "nothing" is none of ports: admin, coordinator, kafka' in done.stderr

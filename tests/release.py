"""Makes the artifacts of a release, and tests them: `make release` puts them into dist/.

The wheel and the source; the Helm chart; the list of every package that the wheel installs (SBOM, CycloneDX). The wheel
is installed into a new environment, in which the program must run and the list is made.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Final

import yaml

SOURCE: Final = Path(__file__).parents[1]
CHART: Final = SOURCE / "config/helm/kafka-mesh"
EXAMPLE: Final = SOURCE / "config/relay.yaml"


class Mistake(Exception):
    """An artifact is not fit to be published."""


def version() -> str:
    return str(tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]["version"])


def make(folder: Path) -> None:
    """Makes all artifacts, in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, SOURCE], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    (source,) = folder.glob("*.tar.gz")
    check_wheel(wheel)
    check_source(source)
    pack_chart(folder)
    with tempfile.TemporaryDirectory() as made:
        packages = try_wheel(wheel, Path(made), folder / f"kafka-mesh-{version()}.cdx.json")
    write_sums(folder)
    print(f"kafka-mesh {version()}: {packages} packages in its SBOM; {folder} has")
    for each in sorted(folder.iterdir()):
        print(f"  {each.name}")


def check_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        tops = {name.partition("/")[0] for name in names}
        expected = {"mesh", "pyspark_kafka_mesh", f"kafka_mesh-{version()}.dist-info"}
        if tops != expected:
            raise Mistake(f"{wheel.name} has {sorted(tops)} and not {sorted(expected)}")
        if not any(name.endswith("licenses/LICENSE") for name in names):
            raise Mistake(f"{wheel.name} has no LICENSE")
        metadata = archive.read(f"kafka_mesh-{version()}.dist-info/METADATA").decode()
    if "License-Expression: Apache-2.0" not in metadata:
        raise Mistake(f"{wheel.name} does not say its license")


def check_source(source: Path) -> None:
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in ("LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "mesh/cli.py", "config/full.yaml"):
        if needed not in names:
            raise Mistake(f"{source.name} has no {needed}")


def pack_chart(folder: Path) -> Path:
    """Packs the chart like `helm package`. Raises Mistake if its versions differ."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    if {chart["version"], chart["appVersion"]} != {version()}:
        raise Mistake(f"the chart is {chart['version']} of {chart['appVersion']}, and this is {version()}")
    target = folder / f"{chart['name']}-{version()}.tgz"
    with tarfile.open(target, "w:gz") as archive:
        archive.add(CHART, chart["name"])
    return target


def try_wheel(wheel: Path, folder: Path, sbom: Path) -> int:
    """Installs the wheel, runs it, and writes the list of the packages that it installed. Returns their number."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    binaries = folder / "bin"
    pip: list[str | Path] = [binaries / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([*pip, "--constraint", SOURCE / "requirements.lock", wheel], check=True)
    told = subprocess.run([binaries / "kafka-mesh", "--version"], check=True, capture_output=True, text=True).stdout
    if told.strip() != f"kafka-mesh {version()}":
        raise Mistake(f"the installed program says {told.strip()!r}")
    subprocess.run([binaries / "kafka-mesh", "check", EXAMPLE], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([binaries / "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools"], check=True)
    listing: list[str | Path] = [sys.executable, "-m", "cyclonedx_py", "environment", binaries / "python"]
    subprocess.run([*listing, "--output-reproducible", "--output-file", sbom], check=True)
    made = json.loads(sbom.read_text())
    for each in made["components"]:  # the wheel's folder at installation must not be published
        references = each.get("externalReferences", ())
        each["externalReferences"] = [one for one in references if not one["url"].startswith("file:")]
    sbom.write_text(json.dumps(made, indent=2) + "\n")
    components = {each["name"] for each in made["components"]}
    if missing := {"kafka-mesh", "kio", "confluent-kafka"} - components:
        raise Mistake(f"{sbom.name} lacks {sorted(missing)}")
    return len(components)


def write_sums(folder: Path) -> None:
    """Writes SHA256SUMS, with which `sha256sum --check` verifies the other files."""
    files = sorted(folder.iterdir())
    sums = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files]
    (folder / "SHA256SUMS").write_text("".join(sums))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    make(arguments.parse_args().folder)


if __name__ == "__main__":
    main()

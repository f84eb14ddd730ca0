"""Java programs as tests run them: small, and quick to start.

Test processes are too short-lived to profit from the better compiler: a broker's start takes 3.2 s of CPU with it,
2.2 s with the first tier alone. Half of the rest goes into reading and verifying classes. An archive of them (class
data sharing) saves that. `tests.integration.class_archive` makes it. Java ignores an archive of other jars, or of
another Java.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def java(
    jars: Path,
    name: str,
    *arguments: str,
    classes: Path | None = None,
    heap: str = "256m",
    options: Sequence[str] = (),
    is_measured: bool = False,
) -> list[str]:
    """The command line that runs the class `name` of `jars`, a folder, or of the folder `classes`.

    heap: the most memory. is_measured: Java compiles as well as it can.
    """
    archive = archive_of(jars)
    shared = (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if archive.exists() else ()
    quick = () if is_measured else ("-XX:TieredStopAtLevel=1",)
    # Java expands the asterisk. The archive is of a path that begins with the jars.
    path = f"{jars}/*" if classes is None else f"{jars}/*:{classes}"
    return ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", *quick, *shared, *options, "-cp", path, name, *arguments]


def archive_of(jars: Path) -> Path:
    """The archive of classes of these jars, which may be missing."""
    return jars.with_name(f"{jars.name}-classes") / "classes.jsa"

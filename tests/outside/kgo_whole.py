"""All of kgo's own tests at once."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path

from tests.outside.building import kgo_tests


def kgo_outcome(address: str, folder: Path, without: Collection[str] = ()) -> tuple[Mapping[str, str], str]:
    """PASS, FAIL or SKIP by the name of each test, and their output. address: where they begin. without: excluded
    tests."""
    log = folder / "kgo.log"
    environment = {
        **os.environ,
        "KGO_SEEDS": address,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": "20000",
        "KGO_TEST_MAX_TOPIC_PARTS": "4",
    }
    command: list[str | Path] = [kgo_tests(), "-test.v", "-test.timeout", "800s", "-test.parallel", "2"]
    if without:
        command += ["-test.skip", f"^({'|'.join(sorted(without))})$"]
    with log.open("wb") as out:
        subprocess.run(command, env=environment, cwd=folder, stdout=out, stderr=out, timeout=850, check=False)
    said = log.read_text(errors="replace")
    return {name: word for word, name in re.findall(r"^--- (PASS|FAIL|SKIP): (\w+) ", said, re.MULTILINE)}, said

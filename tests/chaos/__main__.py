"""`python -m tests.chaos --seed 7 --minutes 2`: one run after the other, with this seed and the following ones."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.plan import plan
from tests.chaos.run import Outcome, Run
from tests.integration.mesh_process import ENGINE


def run(seed: int, seconds: float, *, is_loud: bool = True) -> Outcome:
    """Runs one seed for about this many seconds; removes the folder of a good run."""
    folder = Path(tempfile.mkdtemp(prefix=f"chaos-{ENGINE}-{seed}-"))
    one = Run(plan(seed, seconds), folder, _say if is_loud else lambda _: None)
    try:
        outcome = one.carry_out()
    finally:
        one.end()
    (folder / "outcome.txt").write_text(f"{outcome}\n")
    if outcome.is_good:
        shutil.rmtree(folder)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--minutes", type=float, default=0.0, help="seeds that follow are run for so long")
    parser.add_argument("--seconds", type=float, default=60.0, help="of faults in each run")
    options = parser.parse_args()
    begin, seed, failed = time.monotonic(), options.seed, []
    while True:
        _say(f"== seed {seed}, engine {ENGINE}")
        outcome = run(seed, options.seconds)
        _say(str(outcome))
        if not outcome.is_good:
            failed.append(seed)
            again = f"make chaos SEED={seed} SECONDS={options.seconds:g}"
            _say(f"again: KAFKA_MESH_TEST_ENGINE={ENGINE} {again}")
        seed += 1
        if time.monotonic() - begin >= options.minutes * 60:
            break
    _say(f"{seed - options.seed} seeds, {len(failed)} failed: {failed}")
    return 1 if failed else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())

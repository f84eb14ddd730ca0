"""Coverage-guided fuzzing with atheris (`pip install .[fuzz]`).

    python -m tests.fuzz decode -runs=1000000        every request decoder
    python -m tests.fuzz server -runs=100000         scripts of requests through connections, handlers and pools

Inputs that reach new branches are kept in .cache/fuzz/TARGET; a finding is written to crash-* there. All options are
libFuzzer's. To add the fewest new inputs that reach the same branches to the corpus of the tests:

    python -m tests.fuzz server -merge=1
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import structlog

from tests.fuzz.corpus import CORPUS

EVERY = 20_000
DEFAULTS = ("-max_len=4096", "-timeout=20", "-rss_limit_mb=1024", "-print_final_stats=1")


def main() -> None:
    import atheris

    name, options = sys.argv[1], sys.argv[2:]
    with atheris.instrument_imports(include=["mesh"]):
        from tests.fuzz.targets import TARGETS
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    target = TARGETS[name]()
    found = Path(".cache") / "fuzz" / name
    found.mkdir(parents=True, exist_ok=True)
    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    folders = [found, CORPUS / name]
    if any(option.startswith("-merge=") for option in options):
        folders.reverse()
    runs = frames = 0

    def once(data: bytes) -> None:
        nonlocal runs, frames
        frames += target(data)
        runs += 1
        if runs % EVERY == 0:
            print(f"{runs} runs, {frames} frames", file=sys.stderr, flush=True)

    arguments = [sys.argv[0], *DEFAULTS, f"-artifact_prefix={found}/", *options, *map(str, folders)]
    atheris.Setup(arguments, once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

"""The start of the command `kafka-mesh`. It handles SIGHUP before the modules of the mesh are imported."""

from __future__ import annotations

import sys

from mesh import hangups


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        hangups.remember()
    from mesh.cli import main as run

    run()


if __name__ == "__main__":
    main()

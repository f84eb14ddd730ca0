"""Python runs this at its start, in the processes that tests start: `kafka-mesh` starts as for users, without
hypothesis. If hypothesis is installed, kio imports it, and with it pytest, which takes a fifth of the start of a
process."""

import sys
from pathlib import PurePath

if any(PurePath(word).name == "kafka-mesh" for word in sys.orig_argv[1:2]):
    sys.modules["hypothesis"] = None  # type: ignore[assignment]

"""Finding commands in pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import documents
from tests.documents import Block, blocks, commands

PAGE = """\
# A page

    kafka-mesh check a.yaml       # a comment
    not a command

text

```sh
# only a comment
frobnicate --all
long \\
    --option
curl x -d '{"a": 1,
  "b": 2}'
```

```yaml
make: it
```

   make inside a paragraph
"""


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setattr(documents, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    return "page.md"


def test_commands(page: str) -> None:
    assert list(commands(page)) == [
        "kafka-mesh check a.yaml",
        "frobnicate --all",
        "long --option",
        """curl x -d '{"a": 1, "b": 2}'""",
    ]


def test_blocks(page: str) -> None:
    assert [block.language for block in blocks(page)] == [None, "sh", "yaml"]
    assert list(blocks(page))[2] == Block("yaml", "make: it")

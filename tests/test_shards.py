"""The results of shards, and the hash of the code that they are about."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import shards
from tests.shards import COVERED, ROOT, SHARDS, Result


def test_every_place_exists_and_has_one_shard() -> None:
    places = [place for chosen in SHARDS.values() for place in chosen]
    assert len(places) == len(set(places))
    for place in places:
        assert (ROOT / "tests" / place).exists(), place
        assert len(shards.shards_of(ROOT / "tests" / place)) == 1, place


def test_a_new_result_replaces_that_of_its_shard(tmp_path: Path) -> None:
    file = tmp_path / "shards.tsv"
    for result in (Result("b", "1", 3, 0, 9, "-"), Result("a", "1", 4, 1, 9, "x::y"), Result("b", "2", 5, 0, 9, "-")):
        shards.note(result, file)
    assert file.read_text().splitlines() == [
        "shard\tcode\tpassed\tfailed\tseconds\tflaky",
        "a\t1\t4\t1\t9\tx::y",
        "b\t2\t5\t0\t9\t-",
    ]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shards, "ROOT", tmp_path)
    for place in (*COVERED[:3], ".ci"):
        tmp_path.joinpath(place).mkdir()
        tmp_path.joinpath(place, "file").write_text("content")
    tmp_path.joinpath("pyproject.toml").touch()
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "change")


def test_a_committed_result_leaves_the_hash_as_it_is(checkout: Path) -> None:
    before = shards.code_of_tree()
    checkout.joinpath(".ci", "shards.tsv").write_text("a result")
    commit(checkout)
    assert shards.code_of_tree() == before
    checkout.joinpath("tests", "file").write_text("other")
    commit(checkout)
    assert shards.code_of_tree() != before


def test_code_that_is_not_committed_has_no_hash(checkout: Path) -> None:
    checkout.joinpath("mesh", "new").touch()
    with pytest.raises(RuntimeError, match="mesh/new"):
        shards.code_of_tree()


def test_the_workflow_runs_every_shard() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert workflow["jobs"]["shards"]["strategy"]["matrix"]["shard"] == list(shards.ALL)


def test_only_right_names_pass_the_check_that_comes_before_the_clients_are_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shards, "run", lambda shard: pytest.fail(f"{shard} ran"))
    assert shards.main(["--check"]) == 2
    assert "router: " in capsys.readouterr().out
    assert shards.main(["--check", "routers"]) == 2
    assert "no such shard: routers" in capsys.readouterr().out
    assert shards.main(["--check", "router", "pool"]) == 0
    assert shards.main(["--check", "all"]) == 0


def test_make_lists_the_shards_before_it_builds_anything() -> None:
    command = ["make", "--old-file=install", "test-long", "SHARD=", "BIN=" + str(Path(sys.executable).parent)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # of `make test`
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    first, *_ = done.stdout.splitlines()
    assert first.startswith(next(iter(SHARDS)))
    assert done.stdout.rstrip().endswith("or all")

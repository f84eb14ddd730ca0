"""The second run of failed files, on small suites that fail in different ways."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ONCE = """
from pathlib import Path

def is_first(name: str) -> bool:
    place = Path(__file__).with_name(name)
    if place.exists():
        return False
    place.touch()
    return True
"""


def finished(folder: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    """A run of `tests.second_chance` in a folder with these test files."""
    for name, text in files.items():
        folder.joinpath(f"test_{name}.py").write_text(ONCE + text)
    folder.joinpath("pytest.ini").write_text("[pytest]\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    return subprocess.run(
        [sys.executable, "-m", "tests.second_chance", "-p", "xdist", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )


def test_a_test_that_passes_the_second_time_is_named(tmp_path: Path) -> None:
    flaky = "def test_flaky(): assert not is_first('seen')\ndef test_other(): pass\n"
    done = finished(tmp_path, "-n", "1", flaky=flaky, good="def test_good(): pass\n")
    assert done.returncode == 0, done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("FLAKY")] == [
        "FLAKY test_flaky.py::test_flaky"
    ]
    assert "2 passed" in done.stdout, "only its file runs again"


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    done = finished(tmp_path, broken="def test_broken(): assert False\n")
    assert done.returncode == 1
    assert "FLAKY" not in done.stdout


def test_logged_errors_do_not_count_as_failures(tmp_path: Path) -> None:
    flaky = "def test_flaky():\n    print('FAILED a\\nERROR b\\n' * 9)\n    assert not is_first('seen')\n"
    assert finished(tmp_path, flaky=flaky).returncode == 0


def test_a_fixture_that_fails_once_counts_as_one_file(tmp_path: Path) -> None:
    fixture = "import pytest\n@pytest.fixture(scope='module')\ndef thing():\n    assert not is_first('seen')\n"
    users = "@pytest.mark.parametrize('number', range(9))\ndef test_it(thing, number): pass\n"
    done = finished(tmp_path, fixture=fixture + users)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("FLAKY") == 9


def test_a_test_runs_again_with_its_neighbours(tmp_path: Path) -> None:
    chain = "seen = []\ndef test_one(): seen.append(1)\ndef test_two(): assert seen and not is_first('seen')\n"
    assert finished(tmp_path, chain=chain).returncode == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_crash_is_a_failure_of_its_test(tmp_path: Path, processes: str) -> None:
    crash = "import os, signal\ndef test_crash():\n    if is_first('seen'): os.kill(os.getpid(), signal.SIGSEGV)\n"
    done = finished(tmp_path, "-n", processes, crash=crash)
    assert done.returncode == 0, done.stdout
    assert "FLAKY test_crash.py::test_crash" in done.stdout


def test_an_error_of_pytest_itself_is_repeated_for_the_files_that_failed(tmp_path: Path) -> None:
    tmp_path.joinpath("conftest.py").write_text(
        ONCE + "def pytest_sessionfinish():\n    if is_first('finished'): raise RuntimeError('internal')\n"
    )
    done = finished(tmp_path, flaky="def test_flaky(): assert not is_first('seen')\n")
    assert done.returncode == 0, done.stdout


def test_many_failed_files_do_not_run_again(tmp_path: Path) -> None:
    broken = {f"broken_{number}": "def test_broken(): assert False\n" for number in range(6)}
    done = finished(tmp_path, **broken)
    assert done.returncode == 1
    assert "once more" not in done.stdout


def test_no_tests_is_a_failure(tmp_path: Path) -> None:
    assert finished(tmp_path, empty="").returncode == pytest.ExitCode.NO_TESTS_COLLECTED


def test_only_the_failed_files_of_the_named_ones_run_again(tmp_path: Path) -> None:
    broken = "def test_broken(): assert False\n"
    done = finished(tmp_path, "test_broken.py", "test_good.py", broken=broken, good="def test_good(): pass\n")
    assert done.returncode == 1
    assert "1 failed in" in done.stdout.splitlines()[-1]


def test_a_decorated_test_runs_again_in_its_own_file(tmp_path: Path) -> None:
    decorator = "def decorated(test):\n    def run(): test()\n    run.__name__ = test.__name__\n    return run\n"
    tmp_path.joinpath("decorators.py").write_text(decorator)
    flaky = "from decorators import decorated\n@decorated\ndef test_flaky(): assert not is_first('seen')\n"
    done = finished(tmp_path, flaky=flaky)
    assert done.returncode == 0, done.stdout
    assert "FLAKY test_flaky.py::test_flaky" in done.stdout

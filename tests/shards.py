"""Runs the tests that `make test` leaves out, in shards of some ten minutes: `python -m tests.shards NAME ...`.

A run writes a line to `.ci/shards.tsv`: the shard, a hash of the code, and the results. The hash covers `mesh`,
`pyspark_kafka_mesh`, `tests` and `pyproject.toml` as they are committed, so the lines of one commit do not make each
other stale. Without a name it lists the shards, and says which of their lines are about older code. `--check NAME ...`
only says whether the names are right: `make test-long` asks before it builds the clients.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Final

from tests import second_chance

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / ".ci" / "shards.tsv"
EXPRESSION: Final = "(long or alone or (kafka and not smoke)) and not outside and not deep"
COVERED: Final = ("mesh", "pyspark_kafka_mesh", "tests", "pyproject.toml")
CHECK: Final = "--check"
ALONE: Final = frozenset({"floods"})
"""Shards that measure rates: one process runs all of their tests."""

SHARDS: Final[Mapping[str, Sequence[str]]] = {
    "clients": (
        "clients/test_alone.py",
        "clients/test_consumer_protocol.py",
        "clients/test_mixed.py",
        "clients/test_new_partitions.py",
        "clients/test_starts.py",
    ),
    "clients-deaths": ("clients/test_deaths.py", "clients/test_rewinds.py", "clients/test_migration.py"),
    "faults": ("faults", "upstream", "integration/test_old_brokers.py"),
    "floods": ("benchmarks", "chaos", "integration/test_sharing.py", "listener"),
    "hours": ("integration/test_hours_in_minutes.py",),
    "pages": ("admin", "demo", "pipelines"),
    "pool": (
        "integration/test_all_topics.py",
        "integration/test_bed.py",
        "integration/test_bed_members.py",
        "integration/test_crashes.py",
        "integration/test_dead_letters.py",
        "integration/test_doctor.py",
        "integration/test_draining.py",
        "integration/test_ends_of_backlogs.py",
        "integration/test_engines.py",
        "integration/test_exactness.py",
        "integration/test_groups_at_each_node.py",
        "integration/test_growth.py",
        "integration/test_handover.py",
        "integration/test_killed_often.py",
        "integration/test_leases.py",
        "integration/test_leases_of_topics_made_anew.py",
        "integration/test_leases_of_two_processes.py",
        "integration/test_limits.py",
        "integration/test_moving.py",
        "integration/test_peers.py",
        "integration/test_poison.py",
        "integration/test_redrive_killed.py",
        "integration/test_reloading.py",
        "integration/test_replays.py",
        "integration/test_retention.py",
        "integration/test_share_acknowledgements.py",
        "integration/test_share_members.py",
        "integration/test_small_transactions.py",
        "integration/test_store.py",
        "integration/test_stuck_records.py",
        "integration/test_tools.py",
        "integration/test_tracing.py",
        "integration/test_workers.py",
        "pool/distribution/test_weights.py",
        "supervision",
    ),
    "security": (
        "integration/security",
        "integration/test_hidden_fields.py",
        "router/authorizer",
        "security",
        "wire/test_read_as_kafka_reads.py",
    ),
    "interceptors": (
        "integration/test_filtered_producers.py",
        "integration/test_filtered_producers_cut.py",
        "integration/test_interceptors.py",
        "integration/test_interceptors_in_pools.py",
        "integration/test_interceptors_of_impatient_clients.py",
        "integration/test_interceptors_on_the_wire.py",
        "integration/test_interceptors_that_fail.py",
        "relay/test_intercepted_clients.py",
    ),
    "relay": (
        "integration/test_relay.py",
        "integration/test_relay_identities.py",
        "integration/test_relay_listeners.py",
        "one_node",
        "relay/test_clients.py",
        "relay/test_cluster.py",
        "relay/test_exactly_once.py",
        "relay/test_kills.py",
        "relay/test_tools.py",
    ),
    "relay-versions": (
        "relay/test_differential.py",
        "relay/test_differential_of_2_8.py",
        "relay/test_differential_of_3_9.py",
        "relay/test_differential_of_the_newest.py",
    ),
    "release": ("config/test_helm.py", "test_packaging.py", "test_release.py"),
    "reloads": (
        "integration/test_keys_of_virtual_clusters_under_traffic.py",
        "integration/test_keys_under_traffic.py",
    ),
    "router": (
        "app",
        "integration/test_planted_owners.py",
        "integration/test_reloads_that_reconnect.py",
        "router/test_choice.py",
        "router/test_clients.py",
        "router/test_concatenated.py",
        "router/test_groups.py",
        "router/test_interceptors.py",
        "router/test_interceptors_of_routes.py",
        "router/test_members_without_ids.py",
        "router/test_moves.py",
        "router/test_pass_through_router.py",
        "router/test_producer_ids.py",
        "router/test_reload.py",
        "router/test_requests_behind_clients.py",
        "router/test_ruled_and_intercepted.py",
        "router/test_rules.py",
        "router/test_transactions.py",
        "runtime",
        "test_planted.py",
    ),
    "router-kills": (
        "router/test_group_company.py",
        "router/test_group_kills.py",
        "router/test_group_retention.py",
        "router/test_kills.py",
        "router/test_leaders.py",
        "router/test_offset_keeper.py",
        "router/test_share_groups.py",
    ),
    "spark": ("spark",),
    "streams": ("router/test_streams.py", "topologies"),
}
"""The tests of each shard: files and folders under `tests`."""
AGAIN: Final[Mapping[str, tuple[Sequence[str], Mapping[str, str]]]] = {
    "few-files": (("faults",), {"KAFKA_MESH_TEST_FILES": "400"})
}
"""Shards that run tests of others again under other conditions: places, and variables of the environment."""
ALL: Final = (*SHARDS, *AGAIN)


@dataclass(frozen=True, slots=True)
class Result:
    """A line of `.ci/shards.tsv`. code: the hash of the code. flaky: names of the tests that passed only the second
    time, or "-"."""

    shard: str
    code: str
    passed: int
    failed: int
    seconds: int
    flaky: str

    def __str__(self) -> str:
        return "\t".join(map(str, astuple(self)))

    @classmethod
    def of(cls, line: str) -> Result:
        """The result of a line."""
        shard, code, passed, failed, seconds, flaky = line.split("\t")
        return cls(shard, code, int(passed), int(failed), int(seconds), flaky)


def shards_of(file: Path) -> list[str]:
    """The shards that have a file of tests: one, or none."""
    place = file.relative_to(ROOT / "tests")
    return [name for name, places in SHARDS.items() if not {str(place), *map(str, place.parents)}.isdisjoint(places)]


def code_of_tree() -> str:
    """A short hash of the committed code. Raises RuntimeError if something of it is not committed."""
    changed = _git("status", "--porcelain", "--", *COVERED)
    if changed:
        raise RuntimeError(f"not committed, so no result can be noted:\n{changed}")
    trees = _git("rev-parse", *(f"HEAD:{place}" for place in COVERED))
    return hashlib.sha256(trees.encode()).hexdigest()[:12]


def noted(results: Path = RESULTS) -> dict[str, Result]:
    """The newest result of each shard."""
    lines = results.read_text().splitlines()[1:] if results.exists() else []
    return {result.shard: result for result in map(Result.of, lines)}


def note(result: Result, results: Path = RESULTS) -> None:
    """Puts a result in the place of the shard's earlier one."""
    kept = noted(results) | {result.shard: result}
    header = "shard\tcode\tpassed\tfailed\tseconds\tflaky"
    lines = [header, *(str(kept[shard]) for shard in sorted(kept))]
    results.write_text("\n".join(lines) + "\n")


def run(shard: str) -> int:
    """Runs a shard and notes its result; returns pytest's exit status."""
    code = code_of_tree()
    began = time.monotonic()
    processes = ("-n", "1") if shard in ALONE else ("-n", "2", "--dist", "loadfile")
    places, environment = AGAIN[shard] if shard in AGAIN else (SHARDS[shard], {})
    files = [f"tests/{place}" for place in places]
    done = second_chance.run(["-m", EXPRESSION, *processes, *files], environment)
    last = done.first if done.second is None else done.second
    passed = done.first.passed + (0 if done.second is None else len(done.flaky))
    flaky = " ".join(f"{file}::{name}" for file, name in done.flaky) or "-"
    result = Result(shard, code, passed, len(last.failed), round(time.monotonic() - began), flaky)
    if done.status == 0 or last.failed:
        note(result)
    print(result)
    return done.status


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _listing() -> Iterable[str]:
    try:
        code = code_of_tree()
    except RuntimeError:
        code = ""
    known = noted()
    for shard in ALL:
        result = known.get(shard)
        if result is None:
            yield f"{shard}: never run"
        else:
            yield f"{shard}: {'' if result.code == code else 'older code: '}{replace(result, shard='')}".replace(
                "\t", " "
            )


def main(arguments: Sequence[str]) -> int:
    """Runs the named shards; without a name, or with a wrong one, lists all. After `--check` it runs none of them."""
    checks, names = arguments[:1] == [CHECK], [name for name in arguments if name != CHECK]
    chosen = list(ALL) if names == ["all"] else names
    unknown = [name for name in chosen if name not in ALL]
    if unknown or not chosen:
        print("\n".join(_listing()))
        print(f"no such shard: {', '.join(unknown)}" if unknown else "name one: make test-long SHARD=NAME, or all")
        return 2
    return 0 if checks else max([run(name) for name in chosen])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Kafka's own transactional producer, which makes the given transactions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.clients.bench import java_program
from tests.integration.processes import ChildProcess


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction: a record with this value in partition 0 of each of the topics, and the offset that the group has
    reached in partition 0 of `read`; then it is committed, or aborted."""

    value: str
    topics: tuple[str, ...]
    group: str | None = None
    read: str = ""
    offset: int = 0
    commit: bool = True


def outcomes(
    bootstrap_servers: str, transactional_id: str, transactions: Sequence[Transaction], folder: Path
) -> list[str]:
    """The outcome of each transaction: `committed`, `aborted`, or the error."""
    made = [{key: value for key, value in asdict(each).items() if value is not None} for each in transactions]
    script = {"bootstrap_servers": bootstrap_servers, "transactional_id": transactional_id, "transactions": made}
    output = folder / f"{transactional_id}.out"
    command = [*java_program("Transactions"), json.dumps(script)]
    program = ChildProcess(command, log=folder / f"{transactional_id}.log", stdout=output)
    code = program.wait(120)
    assert code == 0, f"the producer ended with {code}; its log ends:\n{program.log_tail()}"
    return output.read_text().splitlines()

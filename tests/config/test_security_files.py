"""Users and rules in files of their own, and the mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.config import Config
from mesh.config.security_files import mistakes_in_files
from tests.config.files import Tree, small


def found(**security: object) -> list[str]:
    tree: Tree = small()
    tree["virtual_clusters"][0] |= security
    return [str(each) for each in mistakes_in_files(Config.model_validate(tree))]


def test_mistakes_have_the_keys_of_their_files(tmp_path: Path) -> None:
    users, rules = tmp_path / "users.yaml", tmp_path / "rules.yaml"
    users.write_text("users: [{name: alice}]")
    rules.write_text("rules: [{principals: ['User:a'], topics: [a], groups: ['']}]")
    sasl, authorization = {"mechanisms": ["PLAIN"], "users_file": str(users)}, {"rules_file": str(rules)}
    of_users, of_rules = found(sasl=sasl, authorization=authorization)
    assert of_users.startswith("virtual_clusters[0].sasl.users_file.users[0]: ")
    assert of_rules.startswith("virtual_clusters[0].authorization.rules_file.rules[0].groups[0]: '': a name")


@pytest.mark.parametrize("pattern_type", ["literal", "prefixed"])
def test_a_variable_that_is_empty_is_no_name(
    tmp_path: Path, pattern_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(f"rules: [{{principals: ['User:a'], topics: ['${{TEAM}}'], pattern_type: {pattern_type}}}]")
    monkeypatch.setenv("TEAM", "")
    (mistake,) = found(authorization={"rules_file": str(rules)})
    assert mistake.startswith("virtual_clusters[0].authorization.rules_file.rules[0].topics[0]: '${TEAM}': a name")
    monkeypatch.setenv("TEAM", "team.")
    assert found(authorization={"rules_file": str(rules)}) == []


def test_files_that_are_not_here_have_no_mistakes(tmp_path: Path) -> None:
    sasl = {"mechanisms": ["PLAIN"], "users_file": str(tmp_path / "a")}
    assert found() == []
    assert found(sasl=sasl, authorization={"rules_file": str(tmp_path / "b")}) == []
    assert found(authorization={}) == []

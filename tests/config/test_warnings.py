from __future__ import annotations

import pytest

from mesh.config import Config
from mesh.config.warnings import warnings_of
from tests.config.files import small

TLS = {"certificate_file": "a", "key_file": "b"}


def found(**security: object) -> list[str]:
    tree = small()
    tree["virtual_clusters"][0] |= security
    return [str(each) for each in warnings_of(Config.model_validate(tree))]


@pytest.mark.parametrize(
    ("mechanisms", "told"),
    [
        (["PLAIN"], ["PLAIN"]),
        (["OAUTHBEARER"], ["OAUTHBEARER"]),
        (["SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"], ["PLAIN", "OAUTHBEARER"]),
        (["SCRAM-SHA-256"], []),
    ],
)
def test_what_is_sent_in_the_clear(mechanisms: list[str], told: list[str]) -> None:
    lines = found(sasl={"mechanisms": mechanisms})
    assert [line.split(": ")[1].split(" ")[0] for line in lines] == told
    assert all(line.startswith("virtual_clusters[0].sasl.mechanisms: ") for line in lines)
    assert found(sasl={"mechanisms": mechanisms}, tls=TLS) == []


def test_nothing_to_say() -> None:
    assert found() == []

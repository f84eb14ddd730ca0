"""Lines count for the tests that ran them; lines that an import ran count for all."""

from __future__ import annotations

from pathlib import Path

import pytest
from coverage import Coverage, CoverageData

from tests.coverage_by_file import OWN_BOUND, PACKAGE_BOUND, TOP, Covered, covered

VARINTS = TOP / "mesh" / "records" / "varints.py"


def test_lines_are_those_of_the_own_tests_and_of_the_package(tmp_path: Path) -> None:
    data = CoverageData(str(tmp_path / "data"))
    statements = Coverage(data_file=None).analysis2(str(VARINTS))[1]
    imported, own, others, unidentified = statements[0], statements[1], statements[2], statements[3]
    for context, line in (
        ("", imported),
        ("tests/records/test_varints.py::test_small|run", own),
        ("tests/records/test_batch.py::test_cut|run", others),
        ("tests/pool/test_pool.py::test_all|run", unidentified),
    ):
        data.set_context(context)
        data.add_lines({str(VARINTS): [line]})
    data.write()
    coverage = Coverage(data_file=str(tmp_path / "data"))
    coverage.load()
    found = {each.file.name: each for each in covered(coverage, ["records"])}
    assert found["varints.py"].own == pytest.approx(200 / len(statements))
    assert found["varints.py"].together == pytest.approx(300 / len(statements))
    assert found["spans.py"].own is None, "it has no tests of its own"


@pytest.mark.parametrize(
    ("own", "together", "is_enough"),
    [
        (OWN_BOUND, PACKAGE_BOUND, True),
        (None, PACKAGE_BOUND, True),
        (OWN_BOUND - 1, 100.0, False),
        (None, PACKAGE_BOUND - 1, False),
    ],
)
def test_a_file_is_below_if_either_is(own: float | None, together: float, is_enough: bool) -> None:
    found = Covered(Path("mesh/records/varints.py"), 20, own, together)
    assert found.is_enough is is_enough
    assert str(found).endswith("below") is not is_enough

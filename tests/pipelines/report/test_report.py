"""Reports of a generated busy group: with lists in place of Spark, with Spark; the page in a real browser."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from mesh.cli import app
from mesh.pipelines.audit.job import AuditJob, load
from mesh.pipelines.audit.records import Holes
from mesh.pipelines.report.figures import COUNTS, Figures
from mesh.pipelines.report.page import page
from mesh.pipelines.report.report import FinishedReport, figures_of
from tests.admin.test_page import asked_for, look
from tests.admin.test_page import browser as browser
from tests.documents import ROOT, blocks
from tests.pipelines.audit.test_job import NEEDED, written
from tests.pipelines.busy import LEASES, STUCK, rows
from tests.pipelines.lists import Rows

SECONDS = 300
needs_browser = pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")), reason="needs chromium and chromedriver"
)


def config_of(folder: Path) -> AuditJob:
    return AuditJob.model_validate(NEEDED | {"state": str(folder / "audit")})


def busy(events: Any, folder: Path, holes: Holes = Holes()) -> Figures:  # noqa: B008  # it is frozen
    return figures_of(config_of(folder), events, holes, 0, 0)


def test_a_busy_group(tmp_path: Path) -> None:
    figures = busy(Rows(rows(SECONDS)), tmp_path)
    total = figures.total.counts
    ended = sum(total[name] for name in COUNTS if name not in {"delivered", "redelivered"})
    assert figures.total.given == ended > 100_000, "everything that was delivered became something"
    assert {each.name for each in figures.members if each.standing == "stuck"} == {STUCK}
    assert "slow-7" in {each.name for each in figures.members if each.standing == "slow"}
    assert [each.name for each in figures.members if each.member_info.is_lease] == [LEASES]
    assert total["redelivered"] > 0
    assert total["dead_lettered"] > 0
    assert len(figures.windows) <= 61
    assert sum(each.share for each in figures.members) == pytest.approx(1)


@pytest.mark.long
def test_the_same_on_spark(spark: Any, tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    from mesh.pipelines.report.report import write

    expected = busy(Rows(rows(SECONDS)), tmp_path)
    found = busy(spark.sparkContext.parallelize(list(rows(SECONDS)), 4), tmp_path)
    assert found == expected
    made = write(config_of(tmp_path), found)
    assert made.page == tmp_path / "audit/report/report.html"
    for name, table in found.tables().items():
        file = made.page.with_name(f"{name}.parquet")
        assert len(parquet.read_table(file)) == len(table) > 0
        assert parquet.read_table(file)["acknowledged"].to_pylist() == [row["acknowledged"] for row in table]
    assert f"page: {made.page}" in list(made.lines())


def test_a_report_says_who_is_stuck(tmp_path: Path) -> None:
    lines = list(FinishedReport(busy(Rows(rows(SECONDS)), tmp_path), tmp_path / "report.html").lines())
    assert f"stuck: {STUCK}" in lines
    assert lines[-1] == f"page: {tmp_path / 'report.html'}"


def test_a_page_of_nothing_and_of_a_journal_with_holes(tmp_path: Path) -> None:
    assert "says nothing of this group" in page(busy(Rows([]), tmp_path))
    found = page(busy(Rows(rows(30)), tmp_path, Holes(2, 1_234)))
    assert "2 pages lost, 1,234 events dropped" in found
    assert "billing-&lt;b&gt;" in found
    assert "billing-<b>" not in found
    assert "<script" not in found


@needs_browser
@pytest.mark.long
def test_the_page_is_well_in_light_and_dark_and_asks_for_nothing(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(busy(Rows(rows(SECONDS)), tmp_path)), encoding="utf-8")
    for size in ((1360, 900), (390, 844)):
        for colours in ("light", "dark"):
            look(browser, size, colours)
            browser.get(file.as_uri())
            assert browser.execute_script("return document.documentElement.scrollWidth") <= size[0]
            back = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
            brightness = sum(int(part) for part in back.removeprefix("rgb(").removesuffix(")").split(",")) / 3
            assert (brightness > 128) == (colours == "light")
            drawn = browser.execute_script(
                "return [...document.querySelectorAll('section > svg')].map(it => it.getBoundingClientRect().height)"
            )
            assert len(drawn) == 6
            assert min(drawn) > 100
            assert browser.save_screenshot(str(tmp_path / f"{size[0]}-{colours}.png"))
    assert not [entry for entry in browser.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}]
    assert {url for url in asked_for(browser) if not url.startswith("data:")} == {file.as_uri()}


def test_what_is_documented_is_understood(tmp_path: Path) -> None:
    (text,) = (block.text for block in blocks("docs/report.md") if block.text.startswith("# audit.yaml"))
    keys = yaml.safe_load(text)  # blocks are not indented
    assert keys.pop("report") is None
    config = load(written(tmp_path, NEEDED | {"report": keys}))
    assert keys.keys() == type(config.report).model_fields.keys()
    assert config.report_folder == Path("/data/orders.report")
    assert (config.report.last, config.report.window, config.report.stuck) == (21_600, 300, 60)


def test_each_column_and_table_is_documented(tmp_path: Path) -> None:
    text = (ROOT / "docs/report.md").read_text()
    tables = busy(Rows(rows(30)), tmp_path).tables()
    assert all(f"`{name}.parquet`" in text for name in tables)
    for name in tables["topics"][0]:
        if name not in {"cluster", "topic"} and not name.endswith(("_p99", "_p999")):
            assert f"`{name}`" in text


@pytest.mark.long
def test_the_command_refuses_a_wrong_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["pipeline", "report", str(written(tmp_path, NEEDED | {"report": {"stuck": 0}}))])
    assert done.exit_code == 2
    assert "report.stuck" in done.output

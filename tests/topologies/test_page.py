"""The topology of a group in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.admin.test_page import CHROMIUM, DRIVER, browser, until
from tests.topologies.asking import Asking
from tests.topologies.clusters import cluster_without, mesh_of

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("topologies"),
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="needs chromium and chromedriver"),
]

__all__ = ["browser"]


def test_a_group_is_unfolded_to_its_picture(browser: Chrome, tmp_path: Path) -> None:
    with cluster_without(tmp_path / "cluster") as cluster, mesh_of(cluster, tmp_path / "mesh") as mesh:
        ask = Asking(mesh.address_of(1))
        ask.wait_for_coordinator()
        ask.wait_for_store()
        ask.join("<b>counts</b>")
        ask.push("<b>counts</b>")
        browser.get(mesh.admin_url)
        until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, ".topologies summary"))
        summary = browser.find_element(By.CSS_SELECTOR, ".topologies summary")
        assert summary.text == "<b>counts</b>: stored epoch 3, failed epoch none"
        summary.click()
        drawn = "const it = document.querySelector('.topologies img'); return it ? it.naturalWidth : 0"
        until(browser, lambda: browser.execute_script(drawn) > 100)

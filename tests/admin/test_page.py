"""The status page in a real browser, beside a mesh with members: what people see, on a desk and on a telephone."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.integration.mesh_process import ENGINE
from tests.integration.processes import START, ChildProcess, eventually, free_port

TOKEN: Final = "a-token-for-the-page"
HOSTILE: Final = "<img src=x onerror=alert(1)>"
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver")
PATIENCE: Final = START


@dataclass
class Estate:
    """A mesh with an embedded cluster. The second cluster of its configuration does not exist."""

    admin: str
    mesh: ChildProcess
    fed: Callable[[int], None]


@pytest.fixture
def estate(tmp_path: Path) -> Iterator[Estate]:
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics("orders", timeout=10).brokers.values()
    admin, port, coordinator = free_port(), free_port(), free_port()
    file = tmp_path / "mesh.yaml"
    file.write_text(
        f"admin: {{listen: 127.0.0.1:{admin}, token: {TOKEN}}}\n"
        f"clusters: [{{name: eu, bootstrap_servers: '{broker.host}:{broker.port}', engine: {ENGINE}}},"
        " {name: us, bootstrap_servers: 127.0.0.1:1}]\n"
        f"virtual_clusters:\n  - {{name: shop, listen: 127.0.0.1:{port}, coordinator: 127.0.0.1:{coordinator},\n"
        "     target: {pool: {topics: [{name: orders, from: [{cluster: eu, topic: orders}]}], groups: ['*'],"
        " start: earliest}}}\n"
    )
    mesh = ChildProcess(
        [Path(sys.executable).with_name("kafka-mesh"), "run", file], log=tmp_path / "mesh.log", environment={}
    )

    def fed(count: int) -> None:
        for number in range(count):
            producer.produce("orders", str(number))
        assert producer.flush(10) == 0

    fed(100)
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "billing",
            "client.id": HOSTILE,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe(["orders"])
        eventually("the consumer gets a record", lambda: consumer.poll(1.0), timeout=PATIENCE)
        yield Estate(f"http://127.0.0.1:{admin}/", mesh, fed)
    finally:
        consumer.close()
        mesh.kill()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
        *("--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}"),
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options, Service(DRIVER))
    driver.get("about:blank")
    driver.get_log("performance")  # type: ignore[no-untyped-call]  # What the browser's own first page asked for.
    yield driver
    driver.quit()


def until(browser: Chrome, holds: Callable[[], Any]) -> None:
    # The page is filled again every second: an element found a moment ago may be gone.
    WebDriverWait(browser, PATIENCE, 0.1, [StaleElementReferenceException]).until(lambda _: holds())


def text(browser: Chrome, selector: str = "body") -> str:
    return browser.find_element(By.CSS_SELECTOR, selector).text


def is_shown_anew(browser: Chrome) -> Callable[[], bool]:
    """True if the page has been filled again since now."""

    def shown() -> int:
        return int(browser.execute_script("return document.body.dataset.shown || '0'"))

    before = shown()
    return lambda: shown() > before


def signed_in(browser: Chrome, estate: Estate, token: str = TOKEN) -> None:
    browser.get(estate.admin)
    until(browser, lambda: browser.find_element(By.ID, "token").is_displayed())
    browser.find_element(By.ID, "token").send_keys(token)
    browser.find_element(By.CSS_SELECTOR, "#login button").click()


@pytest.mark.long
def test_what_people_see(browser: Chrome, estate: Estate) -> None:
    signed_in(browser, estate, "not-the-token-of-it")
    until(browser, lambda: browser.find_element(By.ID, "refused").is_displayed())
    signed_in(browser, estate)
    until(browser, lambda: browser.find_element(By.CSS_SELECTOR, ".pool h3").text == "billing")
    shown = text(browser, ".pool")
    assert "1 member\n" in shown or "1 member " in shown
    assert HOSTILE in shown, "names are shown as they are"
    assert not browser.find_elements(By.CSS_SELECTOR, "main img"), "and never as markup"
    cards = [card.text for card in browser.find_elements(By.CSS_SELECTOR, "#clusters .card")]
    assert [card.split("\n")[0] for card in cards] == ["eu up", "us down"]
    until(browser, lambda: "cluster us" in text(browser, "#problems"))
    assert text(browser, "#state") == "ready, with problems"

    browser.find_element(By.CSS_SELECTOR, ".pool summary").click()
    until(browser, lambda: "held for" in text(browser, ".pool details"))
    again = is_shown_anew(browser)
    until(browser, again)
    assert "orders-" in text(browser, ".pool details"), "what was unfolded stays so"

    estate.mesh.kill()
    until(browser, lambda: text(browser, "#state") == "no answer")


@pytest.mark.long
def test_it_is_live(browser: Chrome, estate: Estate) -> None:
    signed_in(browser, estate)

    def in_flight() -> int:
        tiles = [tile.text.split("\n") for tile in browser.find_elements(By.CSS_SELECTOR, ".tile")]
        return int({name: value for value, name in tiles}["in flight"].replace(",", ""))

    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, ".tile") and in_flight() == 100)
    estate.fed(25)
    until(browser, lambda: in_flight() == 125)


def look(browser: Chrome, size: tuple[int, int], colours: str) -> None:
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": colours}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.mark.long
def test_it_fits_and_complains_of_nothing(browser: Chrome, estate: Estate, tmp_path: Path) -> None:
    signed_in(browser, estate)
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, ".pool"))
    folder = Path(os.environ.get("KAFKA_MESH_TEST_PICTURES", tmp_path))
    for name, size in {"desk": (1280, 900), "telephone": (390, 844)}.items():
        for colours in ("light", "dark"):
            look(browser, size, colours)
            until(browser, is_shown_anew(browser))
            width = browser.execute_script("return document.documentElement.scrollWidth")
            assert width <= size[0], "nothing is cut off or to be scrolled sideways"
            back = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
            brightness = sum(int(part) for part in back.removeprefix("rgb(").removesuffix(")").split(",")) / 3
            assert (brightness > 128) == (colours == "light")
            picture = folder / f"page-{name}-{colours}.png"
            assert browser.save_screenshot(str(picture))
            assert picture.stat().st_size > 10_000

    told = [entry for entry in browser.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}]  # type: ignore[no-untyped-call]
    # The first answer, before the token was entered, was 401.
    assert all("401" in entry["message"] and "127.0.0.1" in entry["message"] for entry in told), told
    elsewhere = [url for url in asked_for(browser) if not url.startswith((estate.admin, "data:"))]
    assert not elsewhere, "it needs no network but its own address"


def asked_for(browser: Chrome) -> list[str]:
    """The browser's requests since the last call."""
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))  # type: ignore[no-untyped-call]
    found = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    assert found
    return found

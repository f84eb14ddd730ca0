"""An operator with a stuck group and only the page finds the member and the record, looks at it, and frees it."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import alert_is_present

from tests.admin.test_page import CHROMIUM, DRIVER, TOKEN, browser, text, until
from tests.integration.mesh_process import ENGINE
from tests.integration.processes import START, ChildProcess, eventually, free_port

__all__ = ["browser"]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
]
POISON = json.dumps({"order": 1, "card": {"number": "4111-1111"}})


@dataclass
class Stuck:
    """A mesh, one member that holds every record and commits nothing, and another that waits."""

    admin: str
    holder: Consumer
    waiting: Consumer


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Stuck]:
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics("orders", timeout=10).brokers.values()
    admin, port, coordinator = free_port(), free_port(), free_port()
    pool = {"topics": [{"name": "orders", "from": [{"cluster": "eu", "topic": "orders"}]}], "groups": ["*"]}
    configuration = {
        "admin": {"listen": f"127.0.0.1:{admin}", "token": TOKEN, "look": {"mask_paths": ["card.number"]}},
        "clusters": [{"name": "eu", "bootstrap_servers": f"{broker.host}:{broker.port}", "engine": ENGINE}],
        "virtual_clusters": [
            {
                "name": "shop",
                "listen": f"127.0.0.1:{port}",
                "coordinator": f"127.0.0.1:{coordinator}",
                "target": {"pool": {**pool, "start": "earliest"}},
            }
        ],
    }
    file = tmp_path / "mesh.yaml"
    file.write_text(yaml.safe_dump(configuration))
    program = Path(sys.executable).with_name("kafka-mesh")
    mesh = ChildProcess([program, "run", file], log=tmp_path / "mesh.log", environment={})
    consumers: list[Consumer] = []

    def consumer(name: str) -> Consumer:
        made = Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "group.id": "billing",
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumers.append(made)
        made.subscribe(["orders"])
        return made

    try:
        holder = consumer("holder")
        producer.produce("orders", POISON, key="first", partition=0, headers={"trace": b"\xff\x00"})
        producer.produce("orders", "second", partition=0)
        assert producer.flush(10) == 0
        eventually("the first member has the record", lambda: holder.poll(1.0), timeout=START)
        waiting = consumer("waiting")
        eventually(
            "the other member asks for records", lambda: waiting.poll(0.1) or waiting.assignment(), timeout=START
        )
        yield Stuck(f"http://127.0.0.1:{admin}/", holder, waiting)
    finally:
        for each in consumers:
            each.close()
        mesh.kill()


def test_a_record_is_found_looked_at_and_settled_from_the_page(stuck: Stuck, browser: Chrome) -> None:
    browser.get(stuck.admin)
    until(browser, lambda: browser.find_element(By.ID, "token").is_displayed())
    browser.find_element(By.ID, "token").send_keys(TOKEN)
    browser.find_element(By.CSS_SELECTOR, "#login button").click()
    until(browser, lambda: "holder" in text(browser, "#pools"))
    # The rows are made again every other second: a row that was found may be gone before the click.
    until(browser, lambda: browser.execute_script("document.querySelector('#pools button.look').click(); return true"))
    until(browser, lambda: "Record 0 of eu/orders-0, group billing" in text(browser, "#record"))
    shown = text(browser, "#record")
    assert "held by" in shown
    assert '"order": 1' in shown
    assert "4111-1111" not in shown, "it is masked by the configuration"
    assert "****" in shown
    assert "ff00" in shown, "what is no text is shown as hexadecimal digits"
    browser.find_element(By.CSS_SELECTOR, "#record button[data-action=bury]").click()
    browser.switch_to.alert.accept()
    until(browser, lambda: "the pool has no dead_letters" in text(browser, "#record"))
    browser.find_element(By.CSS_SELECTOR, "#record button[data-action=settle]").click()
    browser.switch_to.alert.accept()
    until(browser, lambda: "settle: done" in text(browser, "#record"))
    message = eventually("the other member has what is left", lambda: stuck.waiting.poll(1.0), timeout=START)
    assert message.value() == b"second"


def test_a_replay_is_seen_and_cancelled_on_the_page(stuck: Stuck, browser: Chrome) -> None:
    stuck.holder.commit(asynchronous=False)
    url = f"{stuck.admin}replays?group=billing&partition=eu/orders-0&offset=0&rate=1&replay=mended"
    request = urllib.request.Request(url, method="POST", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        assert json.load(response)["offsets"] == 1
    browser.get(stuck.admin)
    until(browser, lambda: browser.find_element(By.ID, "token").is_displayed())
    browser.find_element(By.ID, "token").send_keys(TOKEN)
    browser.find_element(By.CSS_SELECTOR, "#login button").click()
    until(browser, lambda: "mended" in text(browser, "#pools"))
    # The question of a click would block the script that clicks.
    found = "const made = document.querySelector('#pools button[data-action=cancel]'); "
    click = "if (made) setTimeout(() => made.click()); return made !== null"
    until(browser, lambda: browser.execute_script(found + click))
    until(browser, lambda: alert_is_present()(browser))
    browser.switch_to.alert.accept()
    until(
        browser, lambda: "mended" not in text(browser, "#pools") or "members have the rest" in text(browser, "#pools")
    )

"""The pages of the service in a real browser: chromium without a window, by selenium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from asgi import add_token, server
from test_page_browser import SYSTEM, axe, browser, downloads, wait
from test_service_pages import fill

from collforge.generator.manifest import Manifest
from collforge.service import pages

pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(not shutil.which("chromedriver"), reason="needs chromium-driver"),
]
__all__ = ["axe", "browser", "downloads"]  # fixtures
URLS = {name: path for path, name in pages.PAGES}


@pytest.fixture(scope="module")
def fleet(made: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fleet") / "fleet.db"
    for system in (SYSTEM, "second"):
        fill(path, made, system)
    return path


@pytest.fixture(scope="module")
def address(fleet: Path) -> Iterator[str]:
    with server(fleet) as (found, _):
        yield found


def check(browser: Any, axe: str) -> None:
    """The page is no wider than the window, axe-core finds nothing serious, and the policy hinders nothing."""
    wide, room = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= room
    errors = [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert not errors
    browser.execute_cdp_cmd("Runtime.enable", {})
    browser.execute_script(axe)
    found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    assert not serious, [(one["id"], [n["html"] for n in one["nodes"]][:3]) for one in serious]
    browser.get_log("browser")


@pytest.mark.parametrize("name", URLS)
def test_pages(name: str, browser: Any, address: str, axe: str, tmp_path: Path) -> None:
    browser.get(f"{address}{URLS[name]}")
    assert browser.title == f"Collforge: {name}"
    assert browser.execute_script("return document.querySelectorAll('tbody tr').length") > 0
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    dark = browser.execute_script("return matchMedia('(prefers-color-scheme: dark)').matches")
    assert paper == ("rgb(22, 24, 28)" if dark else "rgb(255, 255, 255)")  # the style is loaded
    check(browser, axe)


def test_the_page_of_a_system(browser: Any, address: str, axe: str) -> None:
    """Its charts are drawn under the policy, which allows no eval."""
    browser.get(f"{address}/systems/{quote(SYSTEM, safe='')}#explore")
    wait(browser, "return document.body.dataset.ready === 'yes'")
    drawn = "return document.querySelectorAll('#explore .chart svg [role=graphics-symbol]').length"
    assert browser.execute_script(drawn) > 1
    check(browser, axe)


def test_a_finding_is_muted_by_the_form(browser: Any, address: str, fleet: Path) -> None:
    """By the keyboard, with the token in the form."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    width = browser.execute_script("return innerWidth")
    token = add_token(fleet, "admin", name=f"admin {width}")
    browser.get(f"{address}/findings")
    Select(browser.find_element(By.NAME, "problem")).select_by_index(0)
    browser.find_element(By.NAME, "why").send_keys(f"cables of {width}")
    browser.execute_script("document.querySelector('[name=until]').value = '2999-01-01'")
    field = browser.find_element(By.NAME, "token")
    field.send_keys(token)
    field.submit()
    wait(browser, "return location.pathname === '/findings'")
    wait(browser, "return document.body.textContent.includes('muted until 2999-01-01')")
    assert f"cables of {width}" in browser.find_element(By.ID, "findings").text

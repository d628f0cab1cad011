"""The page of `collforge report --html` in a real browser: chromium without a window, by selenium."""

from __future__ import annotations

import csv
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from invented_tunings import Tuning
from support import TOP, execute
from test_page import PROFILE

from collforge.generator.manifest import Manifest
from collforge.place import Place
from collforge.tuner.cli import main

pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(not shutil.which("chromedriver"), reason="needs chromium-driver"),
]
AXE = "4.14.1"
VIEWS = ("overview", "explore", "evidence", "profile")
DRAWN = VIEWS[:3]
LOOKS = {"light": (1200, False), "dark and narrow": (420, True)}
SECONDS = 20
SYSTEM = "cluster & <b>co</b>"


@pytest.fixture(scope="module")
def page(made: Manifest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a page of two libraries on two layouts."""
    folder = tmp_path_factory.mktemp("page")
    libraries = {"openmpi": "Open MPI v5.0.7", "mpich": "MPICH 5.0.2"}
    for day, layout in enumerate(("4x2", "2x2"), 1):
        for mpi, version in libraries.items():
            place = Place(SYSTEM, mpi, version, layout)
            Tuning(made, place, day, collectives=["bcast", "reduce"]).store(folder / "db")
    (folder / "calls.csv").write_text(PROFILE)
    words = ["report", "--db", str(folder / "db"), "--html", str(folder / "page.html")]
    words += ["--profile", str(folder / "calls.csv")]
    assert main.main(words) == 0
    return (folder / "page.html").as_uri()


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core."""
    folder = TOP / "build" / "axe"
    source = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not source.is_file():
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        if not shutil.which("npm") or execute([*words, f"axe-core@{AXE}"]).returncode != 0:
            pytest.skip("needs npm, and axe-core from it")
    return source.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module", params=LOOKS)
def browser(request: pytest.FixtureRequest, downloads: Path) -> Iterator[Any]:
    from selenium import webdriver

    width, dark = LOOKS[request.param]
    options = webdriver.ChromeOptions()
    words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    for word in [*words, f"--window-size={width},1000"]:
        options.add_argument(word)
    if dark:
        options.add_argument("--blink-settings=preferredColorScheme=0")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


def show(browser: Any, page: str, view: str) -> None:
    browser.get("about:blank")
    browser.get(f"{page}#{view}")
    wait(browser, "return document.body.dataset.ready === 'yes'")


def wait(browser: Any, script: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, SECONDS).until(lambda driver: driver.execute_script(script))


@pytest.mark.parametrize("view", VIEWS)
def test_views(browser: Any, page: str, axe: str, view: str) -> None:
    """Charts are drawn, the page is no wider than the window, and axe-core finds nothing serious."""
    show(browser, page, view)
    seen = browser.execute_script(
        "return [...document.querySelectorAll('section')].filter(s => !s.hidden).map(s => s.id)"
    )
    assert seen == [view]
    marks = browser.execute_script(
        f"return document.querySelectorAll('#{view} .chart svg [role=graphics-symbol]').length"
    )
    assert marks > 1 or view not in DRAWN
    wide, room = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= room
    browser.execute_script(axe)
    found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    assert not serious, [(one["id"], [n["html"] for n in one["nodes"]][:3]) for one in serious]
    errors = [one["message"] for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert not errors


def test_a_deep_link_and_back(browser: Any, page: str) -> None:
    """The address has the choice: it can be sent to a colleague."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    show(browser, page, "explore?layout=4x2&collective=reduce&library=mpich%3A+MPICH+5.0.2")
    chosen = {
        one.get_attribute("name"): one.get_attribute("value")
        for one in browser.find_elements(By.CSS_SELECTOR, "#choice select")
    }
    assert chosen["system"] == SYSTEM
    assert (chosen["layout"], chosen["collective"]) == ("4x2", "reduce")
    assert chosen["library"] == "mpich: MPICH 5.0.2"
    Select(browser.find_element(By.NAME, "collective")).select_by_value("bcast")
    wait(browser, "return location.hash.includes('bcast')")
    asked = parse_qs(browser.execute_script("return location.hash").partition("?")[2])
    assert asked["collective"] == ["bcast"]
    assert asked["system"] == [SYSTEM]
    browser.find_element(By.LINK_TEXT, "Evidence").click()
    wait(browser, "return !document.getElementById('evidence').hidden")
    browser.back()
    wait(browser, "return !document.getElementById('explore').hidden")
    assert Select(browser.find_element(By.NAME, "collective")).first_selected_option.text == "bcast"


def test_without_a_mouse(browser: Any, page: str) -> None:
    """Enter follows a link, and the next tab is at what the view has to choose from."""
    from selenium.webdriver import ActionChains, Keys

    show(browser, page, "overview")
    browser.execute_script("document.querySelector('nav a[href*=explore]').focus()")
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    wait(browser, "return !document.getElementById('explore').hidden")
    browser.execute_script("document.querySelector('.skip').focus()")
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    assert browser.switch_to.active_element.get_attribute("id") == "main"
    assert browser.execute_script("return !document.getElementById('explore').hidden")
    reached = []
    for _ in range(10):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        one = browser.switch_to.active_element
        reached.append(one.get_attribute("name") or one.text.strip())
    assert reached[:5] == ["system", "layout", "collective", "library", "bytes"]
    assert "CSV" in reached


def test_a_table_as_csv(browser: Any, page: str, downloads: Path) -> None:
    from selenium.webdriver.common.by import By

    for old in downloads.iterdir():
        old.unlink()
    show(browser, page, "explore")
    browser.find_element(By.CSS_SELECTOR, "button[data-table=sizes]").click()
    wait(browser, "return document.getElementById('said').textContent.includes('sizes.csv')")
    saved = downloads / "collforge-sizes.csv"
    wait_for(saved)
    with saved.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["bytes"] for row in rows] == ["1 KiB", "64 KiB"] * 2
    assert {row["library"] for row in rows} == {"openmpi: Open MPI v5.0.7", "mpich: MPICH 5.0.2"}
    assert all(row["measure again"].startswith("collforge tune") for row in rows)


def wait_for(file: Path) -> None:
    end = time.monotonic() + SECONDS
    while not (file.is_file() and file.stat().st_size) and time.monotonic() < end:
        time.sleep(0.05)

"""A headless Chromium without a network, and what a page looks like in it."""

import base64
import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
FLAGS += [
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--proxy-server=127.0.0.1:9",
]  # where nobody listens

LOOK = """
const shown = document.querySelectorAll("body *");
const texts = [...shown].filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()));
const root = document.documentElement;
return {
  pictures: [...document.images].map(i => i.naturalWidth),
  alts: [...document.images].map(i => i.alt),
  overflow: root.scrollWidth - root.clientWidth,
  outside: [...shown].filter(e => !e.closest(".wide"))
    .filter(e => e.getBoundingClientRect().right > root.clientWidth + 1)
    .map(e => e.outerHTML.slice(0, 80)),
  smallest: Math.min(...texts.map(e => parseFloat(getComputedStyle(e).fontSize))),
  headings: [...document.querySelectorAll("h1, h2, h3, h4")].map(h => Number(h.tagName[1])),
  lang: root.lang,
  scripts: document.scripts.length,
};
"""


@dataclasses.dataclass(frozen=True)
class Look:
    """What a page looks like at one width."""

    pictures: list[int]
    alts: list[str]
    overflow: int
    outside: list[str]
    smallest: float
    headings: list[int]
    lang: str
    scripts: int
    requests: list[str]
    complaints: list[str]


def missing() -> str:
    """Why there is no browser to test with; empty if there is one."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    with contextlib.suppress(ImportError):
        import selenium  # noqa: F401

        return f"{' and '.join(lacking)} must be installed: see .ci/browser.sh" if lacking else ""
    return 'selenium must be installed: pip install "popsim[test]"'


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator:
    """The browser, driven by the chromedriver that is installed: none is downloaded.

    **Arguments:**

    - `profile`: an empty folder for what it writes.
    """
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in [*FLAGS, f"--user-data-dir={profile}", "about:blank"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    driver.get("about:blank")
    try:
        yield driver
    finally:
        driver.quit()


def look_at(driver, page: Path, width: int, screenshot: Path | None = None) -> Look:
    """Open a page from disk in a window that is `width` pixels wide."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get_log("browser")
    driver.get_log("performance")
    driver.get(page.resolve().as_uri())
    seen = driver.execute_script(LOOK)
    if screenshot is not None:
        taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        screenshot.write_bytes(base64.b64decode(taken["data"]))
    messages = [json.loads(line["message"])["message"] for line in driver.get_log("performance")]
    sent = [each["params"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    complaints = [line["message"] for line in driver.get_log("browser")]
    return Look(**seen, requests=[each["request"]["url"] for each in sent], complaints=complaints)

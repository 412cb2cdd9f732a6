"""The site of documentation is built without a warning, is whole, and works in a browser, offline."""

import collections
import csv
import dataclasses
import functools
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import browser
import pytest
from repository import ROOT

import popsim

DRAWN = ("center-out", "perceptual-decision")
WIDTHS = (360, 1280)


@dataclasses.dataclass
class Document(HTMLParser):
    """What a page links to and loads, and the entries of the reference on it."""

    anchors: set[str] = dataclasses.field(default_factory=set)
    links: list[str] = dataclasses.field(default_factory=list)
    resources: list[str] = dataclasses.field(default_factory=list)
    texts: dict[str, int] = dataclasses.field(default_factory=dict)
    signed: set[str] = dataclasses.field(default_factory=set)
    entry: str = ""

    def __post_init__(self):
        super().__init__()

    def handle_starttag(self, tag, attrs):
        attributes = {name: value or "" for name, value in attrs}
        kinds = attributes.get("class", "").split()
        if "id" in attributes:
            self.anchors.add(attributes["id"])
        if "doc-heading" in kinds:
            self.entry = attributes["id"]
            self.texts[self.entry] = 0
        if "doc-signature" in kinds:
            self.signed.add(self.entry)
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        loaded = attributes.get("href" if tag == "link" else "src")
        if loaded is not None and tag in ("link", "script", "img", "iframe", "source", "video"):
            self.resources.append(loaded)

    def handle_data(self, data):
        if self.entry:
            self.texts[self.entry] += len(data.strip())


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The folder of the built pages, of which two draw trials."""
    folder = tmp_path_factory.mktemp("site")
    built = build("--out", str(folder), "--draw", *DRAWN)
    assert len(built.stdout.splitlines()) >= 5, "each stage must have a line"
    return folder / "html"


def build(*options: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "docs/builder", *options]
    built = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True)
    assert built.returncode == 0 and "No issues found" in built.stderr, built.stdout + built.stderr
    return built


@pytest.mark.full  # in short: `site`
def test_all_tasks_and_parts_are_drawn(tmp_path):
    build("--out", str(tmp_path / "site"))
    pages = (tmp_path / "site" / "html" / "library" / "tasks").glob("*.svg")
    assert {page.stem for page in pages} == {*popsim.tasks.TASKS}


@pytest.fixture(scope="module")
def documents(site) -> dict[Path, Document]:
    read = {}
    for path in sorted({*site.rglob("*.html")} - {site / "404.html"}):
        read[path] = Document()
        read[path].feed(path.read_text())
    return read


def test_every_public_name_stands_on_one_page_with_its_signature(documents, site):
    pages = {path: document for path, document in documents.items() if site / "reference" in path.parents}
    for name, value, paths in public_names():
        homes = [document for document in pages.values() if paths & document.texts.keys()]
        assert len(homes) == 1, (name, sorted(paths), len(homes))
        (entry,) = paths & homes[0].texts.keys()
        if inspect.isroutine(value) or (inspect.isclass(value) and has_constructor(value)):
            assert entry in homes[0].signed, entry
        if inspect.isroutine(value) or inspect.isclass(value):
            assert homes[0].texts[entry] > len(name) + 20, f"{entry} must have a docstring"


def public_names() -> list[tuple[str, object, set[str]]]:
    """Each public name with its value, and all paths by which it can be imported."""
    exported, waiting, seen = {}, [popsim], set()
    while waiting:
        module = waiting.pop()
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.ismodule(value):
                waiting.append(value)
            else:
                paths = {f"{each}.{name}" for each in (module.__name__, getattr(value, "__module__", None))}
                exported.setdefault((name, id(value)), (value, set()))[1].update(paths)
        inside = pkgutil.iter_modules(getattr(module, "__path__", ()), f"{module.__name__}.")
        waiting += [
            importlib.import_module(each.name) for each in inside if each.ispkg and "._" not in each.name
        ]
    assert len(exported) > 500
    return [(name, value, paths) for (name, _), (value, paths) in exported.items()]


def has_constructor(kind: type) -> bool:
    """Whether users make objects of a class by calling it with arguments."""
    return (
        not (inspect.isabstract(kind) or issubclass(kind, BaseException))
        and kind.__init__ is not object.__init__
    )


def test_every_task_has_its_page(site):
    texts = {name: (site / f"library/tasks/{name}.html").read_text() for name in popsim.tasks.TASKS}
    assert all("Default loss" in text for text in texts.values())
    for name in [*texts][::8]:  # to make them all takes long
        assert all(term in texts[name] for term in popsim.tasks.TASKS[name]().loss.weights), name
    for name in DRAWN:
        text = texts[name]
        for heading in ("Inputs", "Targets", "Epochs", "Conditions"):
            assert f'id="{heading.lower()}"' in text, (name, heading)
        assert "<svg" in (site / "library" / "tasks" / f"{name}.svg").read_text()


def test_the_names_of_other_libraries_stand_on_their_page_with_links(documents, site):
    page = site / "coming_from" / "task_names.html"
    text = page.read_text()
    with (ROOT / "docs" / "builder" / "task_names.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(f"<code>{row['name']}</code>" in text and (row["popsim"] or row["note"]) for row in rows)
    alike = {name for row in rows for name in row["popsim"].split()}
    assert {f"../library/tasks/{name}.html" for name in alike} <= set(documents[page].links)
    assert "<!-- tasks of" not in text


def test_every_link_leads_to_a_page_and_an_anchor(documents, site):
    files = {path for path in site.rglob("*") if path.is_file()}

    @functools.cache  # pages of a folder have most links in common
    def target_of(folder: Path, relative: str) -> Path:
        target = Path(os.path.normpath(folder / unquote(relative)))
        return target / "index.html" if target / "index.html" in files else target

    for path, document in documents.items():
        for link in {*document.links, *document.resources}:
            parts = urlsplit(link)
            if parts.scheme in ("https", "mailto") and link in document.links:
                continue
            assert not parts.scheme and not parts.netloc, f"{path.name} loads {link}"
            target = target_of(path.parent, parts.path) if parts.path else path
            assert target in files, f"{path.name} links to {link}"
            if parts.fragment and not parts.fragment.startswith("__"):
                assert unquote(parts.fragment) in documents[target].anchors, f"{path.name} links to {link}"


@pytest.fixture(scope="module")
def driver(request, tmp_path_factory):
    if why := browser.missing():
        assert not request.config.getoption("--require-browser"), why
        pytest.skip(why)
    with browser.chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("n_of_a_section", [1, pytest.param(None, marks=pytest.mark.full)])
def test_every_entry_of_the_navigation_opens_at_every_width(n_of_a_section, driver, site, documents):
    """Without a message of the browser, a request to another machine, or a page wider than the window.

    In short the largest page of each section.
    """
    driver.get((site / "index.html").as_uri())
    until(lambda: pages_in_navigation(driver) == documents.keys())
    driver.get_log("performance")
    for page in largest_pages({*documents}, site, n_of_a_section):
        driver.get(page.as_uri())
        for width in WIDTHS:
            set_width(driver, width)
            wide = "const root = document.documentElement; return root.scrollWidth - root.clientWidth"
            assert driver.execute_script(wide) <= 0, f"{page.name} is wider than {width} px"
        assert driver.get_log("browser") == [], page.name
    for line in driver.get_log("performance"):
        message = json.loads(line["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            assert not message["params"]["request"]["url"].startswith("http"), message


def pages_in_navigation(driver) -> set[Path]:
    selector = "nav.md-nav--primary a.md-nav__link[href]"
    entries = driver.execute_script(f"return [...document.querySelectorAll('{selector}')].map(a => a.href)")
    return {Path(unquote(urlsplit(entry).path)) for entry in entries if "#" not in entry}


def largest_pages(pages: set[Path], site: Path, n_of_a_section: int | None) -> list[Path]:
    """The largest pages of each folder at the top, by their sizes in bytes; all for None."""
    sections = collections.defaultdict(list)
    for page in sorted(pages, key=lambda page: -page.stat().st_size):
        sections[page.relative_to(site).parent.parts[:1]].append(page)
    return [page for section in sections.values() for page in section[:n_of_a_section]]


def set_width(driver, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


SEARCH_INPUT = """
document.querySelector(".md-search__button").click();
const host = [...document.querySelectorAll("*")].find(e => e.shadowRoot?.querySelector("input"));
return host?.shadowRoot.querySelector("input");
"""
SEARCH_RESULTS = "return [...arguments[0].getRootNode().querySelectorAll('a')].map(a => a.href)"


def test_the_search_answers(driver, site):
    set_width(driver, WIDTHS[0])
    driver.get((site / "index.html").as_uri())
    field = until(lambda: driver.execute_script(SEARCH_INPUT))
    field.send_keys("TaskTrainer")
    results = until(lambda: driver.execute_script(SEARCH_RESULTS, field))
    assert results[0].endswith("popsim.training/index.html?h=TaskTrainer#popsim.training.TaskTrainer")
    assert driver.get_log("browser") == []


def until(condition, seconds: float = 30):
    """Wait for what a page shows after a moment."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "the page shows nothing"
        time.sleep(0.05)
    return value

"""The pages of `popsim show` and `popsim compare`: what they say, where they may be, and in a browser."""

import base64
import hashlib
import html.parser
import re
import shutil

import browser
import matplotlib.pyplot as plt
import numpy as np
import pytest
from kept_runs import finished_run, stopped_run
from reported_runs import HOSTILE, Reported
from short_form import mostly_in_full
from small_experiment import Sum

from popsim.cli import main
from popsim.experiments import CenterOut, RunFigure, open_run
from popsim.experiments.registry import describe_experiment
from popsim.report import SECTIONS, Section, compare_runs, comparison, report_run
from popsim.report.comparison import draw_comparison, open_compared_runs
from popsim.store import read_sealed_json, write_sealed_json
from popsim.store.identity import RUN_ID

TAGS = """html head meta title style body main footer h1 h2 h3 p div table caption thead tbody tr th td
figure figcaption img pre code strong section nav ol li a noscript script"""
ALLOWED = set(TAGS.split())
LINKS = ("#section-", "data:text/csv;base64,")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With the finished runs <b>&$x and "other", and "short", which was stopped, of `Reported`."""
    made = tmp_path_factory.mktemp("reports")
    for name, run in (
        ("<b>&$x", finished_run(tmp_path_factory)),
        ("other", finished_run(tmp_path_factory, seed=1)),
        ("short", stopped_run(tmp_path_factory)),
    ):
        path = shutil.copytree(run, made / name, ignore=shutil.ignore_patterns("figures"))
        content = read_sealed_json(path / "run.json") | {"figures": []}
        longer = {"n_batches": 400} if name == "short" else {}
        reported = Reported(**content["settings"] | longer)
        write_sealed_json(path / "run.json", content | describe_experiment(reported))
        if name != "short":
            summary = {"errors": [1.0, 2.0 + reported.seed]}
            write_sealed_json(path / "summary.json", summary | {RUN_ID: content[RUN_ID]})
    return made


@pytest.fixture(scope="module")
def pages(folder):
    """The report and the comparison, outside of the runs, which stay as they were.

    What the other sections say is in `test_report_sections`.
    """
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("popsim.report.run_report.SECTIONS", SECTIONS[:2])
        patch.setattr("popsim.report.report_folder.LARGEST_SVG", 100_000)
        report = report_run(open_run(folder / "<b>&$x"), folder / "report")
    names = ["<b>&$x", "other", "short"]
    comparison = compare_runs([folder / name for name in names], folder / "comparison")
    assert all(path.read_bytes() == content for path, content in before.items())
    return {"report": report, "comparison": comparison}


class Elements(html.parser.HTMLParser):
    """The elements of a page with their attributes, and its text; fails if they are not nested."""

    def __init__(self, page):
        super().__init__()
        self.found, self.open, self.text = [], [], ""
        self.feed(page)
        assert not self.open

    def attributes(self, name):
        return [given for tag, given in self.found if tag == name]

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "img":
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("name", mostly_in_full(["report", "comparison"], ["report"]))
def test_what_runs_say_is_text_and_nothing_comes_from_elsewhere(name, pages):
    written = pages[name].page.read_text()
    page = Elements(written)
    assert {tag for tag, _ in page.found} <= ALLOWED
    for tag, attributes in page.found:
        assert not any(key.startswith("on") for key in attributes)
        assert attributes.get("href", LINKS[0]).startswith(LINKS)
        if tag == "script":
            assert attributes in ({}, {"type": "application/json", "id": "explorer-data"})
        if tag == "img":
            assert attributes["src"].startswith("data:image/") and attributes["alt"]
    policies = [given["content"] for _, given in page.found if "http-equiv" in given]
    assert "<b>&$x" in page.text and len(policies) == 1 and "default-src 'none'" in policies[0]
    scripts = re.findall(r"<script>(.*?)</script>", written, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in scripts]
    assert policies[0].endswith("script-src " + " ".join(f"'sha256-{digest}'" for digest in digests))
    assert len(scripts) == {"report": 3, "comparison": 1}[name]
    assert pages[name].n_bytes == len(written.encode()) < 2_000_000


def test_a_report_says_what_was_trained_and_what_came_out(pages):
    page = Elements(pages["report"].page.read_text())
    facts = ("2 members", "8 batches of 4 trials", "seed 0", "0.1, 0.2")
    for said in (HOSTILE, *facts, "JAX ", "popsim.open_run"):
        assert said in page.text, said
    for cells in ("trained 1 2.00 - no", "limits  2.00 3.00 "):
        row = "".join(f">{re.escape(cell)}</t[hd]>[^>]*" for cell in cells.split(" "))
        assert re.search(row, pages["report"].page.read_text()), cells
    kinds = [image["src"][11:14] for image in page.attributes("img")]
    further = ["weight_distances", "weight_change"]
    assert kinds == ["svg", "png"] + ["svg"] * len(further)  # PNG is the large one
    links = [link for link in page.attributes("a") if "download" in link]
    assert [link["download"] for link in links[:4]] == ["few.svg", "few.csv", "many.png", "many.csv"]
    losses = base64.b64decode(links[1]["href"].partition(",")[2]).decode().splitlines()
    assert losses[0] == "panel,kind,series,x,y,value" and len(losses) == 1 + 2 * 8  # members and batches
    contents = [link.get("href", "") for link in page.attributes("a")]
    anchors = [section["id"] for section in page.attributes("section")]
    assert [link[1:] for link in contents if link.startswith("#")] == anchors and len(anchors) == 5
    names = {path.name for path in (pages["report"].page.parent / "figures").iterdir()}
    drawn = ["few", "many", *further]
    assert names == {f"{name}.{kind}" for name in drawn for kind in ("png", "pdf")}


def small_figure(run) -> dict[str, RunFigure]:
    return {"small": RunFigure(plt.figure(figsize=(1, 1)), "Small", "of nothing")}


def test_nothing_of_somebody_else_is_overwritten(folder, tmp_path):
    run, paths = open_run(folder / "other"), [folder / "other", folder / "short"]
    (tmp_path / "notes.txt").touch()
    for named in ("empty folder", "anything but a report of popsim"):
        for write in (lambda: report_run(run, tmp_path), lambda: compare_runs(paths, tmp_path)):
            with pytest.raises(ValueError, match=named):
                write()
        for page in ("report.html", "comparison.html"):
            (tmp_path / page).write_text("<p>mine")
    with pytest.raises(ValueError, match="another run"):
        report_run(run, folder / "short")
    with pytest.raises(ValueError, match="finished"):
        report_run(open_run(folder / "short"), tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_comparison_has_what_differs_and_mean_and_range_over_members(folder):
    runs = open_compared_runs([folder / "<b>&$x", folder / "other", folder / "short"], ["a", "b", "c"])
    settings = {row.label: list(row.values) for row in comparison.settings_table(runs).rows}
    assert settings == {"n_batches": ["8", "8", "400"], "seed": ["0", "1", "0"]}
    results = {row.label: list(row.values) for row in comparison.results_table(runs).rows}
    assert results["error (mm), noise off"] == ["1.50 (1.00 to 2.00)", "2.00 (1.00 to 3.00)", "-"]
    assert results["speed (cm/s), noise off"] == ["-", "-", "-"]
    assert results["good"] == ["1 of 2", "1 of 2", "-"]
    last = runs["a"].history.loss.sum("term").values[-1]
    assert results["last training loss"][0] == f"{last.mean():.3g} ({last.min():.3g} to {last.max():.3g})"
    state = comparison.state_text(runs["c"])
    assert "not finished" in state and "of 400 batches" in state


def test_a_comparison_draws_a_line_for_each_run(folder):
    runs = open_compared_runs([folder / "<b>&$x", folder / "other"])
    draws = draw_comparison(runs)
    assert "the figure 'metrics'" in draws
    figures = dict(figure for draw in draws.values() for figure in draw().items())
    assert figures.keys() == {"training_loss", "validation_loss", "metrics"}
    (ax,) = figures["training_loss"].figure.axes
    assert [line.get_label() for line in ax.lines] == [r"<b>&\$x", "other"]
    assert len({line.get_color() for line in ax.lines}) == 2
    losses = runs["other"].history.loss.sum("term").values
    np.testing.assert_allclose(ax.lines[1].get_ydata(), np.exp(np.log(losses).mean(axis=1)), rtol=1e-6)
    for drawn in figures.values():
        plt.close(drawn.figure)


def test_runs_that_do_not_compare_are_refused(folder, monkeypatch):
    a, b = folder / "<b>&$x", folder / "other"
    for paths, names, said in (
        ([a], None, "2 to 8"),
        ([a, a], None, "2 to 8"),
        ([a, folder], None, "run.json"),
        ([a, b], ["x"], "names"),
        ([a, b], ["x", "x"], "names"),
    ):
        with pytest.raises(ValueError, match=said):
            open_compared_runs(paths, names)
    point_mass = CenterOut(plant="point-mass").build_task()
    monkeypatch.setattr(Reported, "build_task", lambda own: point_mass if own.seed else Sum.build_task(own))
    with pytest.raises(ValueError, match="RandomReaches .other."):
        open_compared_runs([a, b])


def test_the_commands_print_the_tables_and_the_pages(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("popsim.report.run_report.SECTIONS", (Section("Drawn", "", small_figure),))
    main(["show", str(folder / "other")])
    said = capsys.readouterr().out
    assert re.search(r"trained +1 +3.00 +- +no\n", said) and "other/report.html" in said
    main(["compare", str(folder / "other"), str(folder / "short"), "--names", "one", "two"])
    said = capsys.readouterr().out
    assert "two: not finished" in said and "comparison/comparison.html" in said
    assert (tmp_path / "comparison" / "figures" / "training_loss.pdf").exists()


STICKY = """
return [...document.querySelectorAll(".wide:has(.results)")].map(box => {
  box.scrollLeft = 50;
  const label = box.querySelector("tbody th").getBoundingClientRect();
  return {
    scrolls: box.scrollWidth > box.clientWidth + 1,
    stays: Math.abs(label.left - box.getBoundingClientRect().left) < 3,
    says: getComputedStyle(box, "::before").content.includes("scrolls"),
  };
});
"""
COLUMNS = """
return [...document.querySelectorAll(".figures")].filter(grid => grid.children.length > 1)
  .map(grid => getComputedStyle(grid).gridTemplateColumns.split(" ").length);
"""


@pytest.mark.parametrize("width", [360, 400, 1280])
@pytest.mark.parametrize("name", ["report", "comparison"])
def test_in_a_browser(name, width, pages, driver):
    look = browser.look_at(driver, pages[name].page, width)
    assert len(look.pictures) >= 2 and min(look.pictures) > 0 and all(look.alts)
    assert look.complaints == []
    assert {address.partition(":")[0] for address in look.requests} == {"file", "data"}
    assert len([address for address in look.requests if address.startswith("file:")]) == 1
    assert look.overflow <= 0 and look.outside == []
    assert look.smallest >= 12 and look.lang == "en"
    steps = np.diff([0, *look.headings])
    assert look.headings.count(1) == 1 and max(steps) <= 1
    labels = driver.execute_script(STICKY)
    assert labels and all(label["stays"] and label["says"] for label in labels if label["scrolls"])
    assert name != "report" or any(label["scrolls"] for label in labels) == (width < 500)
    columns = driver.execute_script(COLUMNS)
    assert set(columns) == ({1} if width < 500 else {2})

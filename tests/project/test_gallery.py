"""Every figure has a script in the gallery, and the scripts and the pages about analysis run."""

import jax
import matplotlib.pyplot as plt
import pytest
from page_code import code_blocks, load_script, run_code
from repository import ROOT
from short_form import mostly_in_full
from tiny_runs import tiny_runs

GALLERY = ROOT / "docs" / "gallery"
make = load_script("docs/gallery/make.py")
SCRIPTS = make.scripts()
PAGES = sorted(page for page in (ROOT / "docs" / "analysis").glob("*.md") if page.stem != "index")

SCRIPTS_IN_SHORT = ("psychometric_curves", "two_state_time_course")  # which need no run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    with tiny_runs(tmp_path_factory) as made:
        yield made


def test_every_figure_has_a_script_and_every_script_a_figure():
    assert {make.shown_by(concept) for concept in SCRIPTS} == set(make.drawing_functions())


@pytest.mark.slow
@pytest.mark.parametrize("concept", mostly_in_full(SCRIPTS, SCRIPTS_IN_SHORT))
def test_the_script_draws(concept, runs):
    """By the function that it is about, at column width, with text where values are."""
    code = SCRIPTS[concept].read_text()
    assert f"{make.shown_by(concept)}(" in code and len(code.splitlines()) <= 30
    with jax.numpy_dtype_promotion("standard"):  # as users have it
        figure = make.run_script(SCRIPTS[concept], runs(code))
    assert any(ax.has_data() for ax in figure.axes) and figure.get_size_inches()[0] <= 7.2
    assert make.picture(figure).startswith(b"\x89PNG")
    plt.close("all")


def test_the_page_shows_every_picture_and_links_to_its_script():
    written, images = make.page(), GALLERY / "images"
    assert (GALLERY / "README.md").read_text() == written, "run docs/gallery/make.py"
    assert all(summary and summary in written for summary in make.drawing_functions().values())
    for concept in SCRIPTS:
        assert f"](images/{concept}.png)" in written and f"]({concept}.py)" in written
        assert 0 < (images / f"{concept}.png").stat().st_size < 200_000


@pytest.mark.full  # in short: the README and the pages of concepts, by test_documents
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_about_analysis_runs(page, runs, monkeypatch):
    """All blocks of a page, in order."""
    code = "\n".join(code_blocks(page))
    assert code, "a page about analysis must show code"
    monkeypatch.chdir(runs(code))
    run_code(code, str(page), {"__name__": "__main__"})
    plt.close("all")

"""Movies of runs, by the command and in Python."""

import pytest
from command_ends import complaint
from kept_runs import finished_run, reach_run
from PIL import Image

import popsim
from popsim.analysis.figures import Playback
from popsim.cli import main
from popsim.experiments.run_movie import animate_run

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path_factory):
    """The folder of a run with a body: two members, six batches, trials of 0.3 s."""
    return reach_run(tmp_path_factory)


def test_a_movie_shows_members_and_stages_and_is_replaced_when_told(run, tmp_path, capsys):
    path = tmp_path / "movies" / "reach.gif"
    words = ["animate", str(run), "--out", str(path), "--frames-per-second", "10"]
    main([*words, "--members", "0", "1", "--batches", "start", "2", "--conditions", "direction=1.57"])
    assert capsys.readouterr().out == f"{path}\n"
    with Image.open(path) as film:
        assert film.n_frames == 3 and film.info["duration"] == 100
    assert "--overwrite" in complaint(words, capsys)
    main([*words, "--overwrite", "--without-noise", "--trials", "0", "2"])
    with Image.open(path) as film:
        assert film.n_frames == 6
    capsys.readouterr()
    foreign = tmp_path / "mine.html"
    foreign.write_text("<!DOCTYPE html>mine")
    assert "a movie of popsim" in complaint([*words[:3], str(foreign), "--overwrite"], capsys)


def test_panels_are_named_by_member_or_stage(run):
    opened = popsim.open_run(run)
    films = {
        ("member 0", "member 1"): {"members": (0, 1)},
        ("untrained", "after 3 batches", "after 6 batches"): {"batches": ("start", "middle", "last")},
        ("member 1, after 1 batches",): {"members": (1,), "batches": ("first",)},
    }
    for titles, options in films.items():
        film = animate_run(opened, playback=Playback(100.0), **options)
        assert tuple(ax.get_title() for ax in film._fig.axes) == titles
        film._draw_was_started = True  # it need not be shown


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--members 2", "--members must be numbers from 0 to 1, got"),
        ("--trials 8", "--trials must be numbers from 0 to 7, got"),
        ("--batches 4", "--batches must be start, first, middle, last, or a batch"),
        ("--batches early", "got 'early'"),
        ("--conditions direction=2", "--conditions must have a direction among -2.36, -1.57"),
        ("--conditions direcion=0", "Perhaps you meant direction"),
        ("--conditions 3", "--conditions must be NAME=VALUE"),
        ("--conditions direction=0 --trials 1", "in place of --trials"),
    ],
)
def test_what_the_run_does_not_have_is_refused(words, named, run, tmp_path, capsys):
    said = complaint(["animate", str(run), "--out", str(tmp_path / "x.gif"), *words.split()], capsys)
    assert named in said and not any(tmp_path.iterdir())


def test_a_run_without_a_body_is_refused(tmp_path, capsys, tmp_path_factory):
    words = ["animate", finished_run(tmp_path_factory), "--out", tmp_path / "x.gif"]
    assert "must be of models with a body, got NetworkModel" in complaint(words, capsys)

import matplotlib.pyplot as plt
import numpy as np
import pytest
from command_ends import complaint
from sample_trials import few_trials
from small_tasks import Choose

from popsim import tasks
from popsim.analysis.figures import draw_task_trials, task_trial_rows
from popsim.cli import main
from popsim.cli._tasks import find_task
from popsim.tasks.library import TASKS


@pytest.fixture
def draw():
    """Draws trials on axes of their own."""

    def on_axes(trials):
        _, axes = plt.subplots(len(task_trial_rows(trials)), 3, sharex=True, sharey="row", squeeze=False)
        assert draw_task_trials(axes, trials) is axes
        return axes

    yield on_axes
    plt.close("all")


def test_a_choice_has_its_signals_epochs_and_events(draw):
    trials = few_trials(Choose())
    axes = draw(trials)
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["input\ncues", "input\nstimulus", "target\noutput"]
    for trial, column in enumerate(axes.T):
        comes = bool(trials.timeline.happens("go cue")[trial])
        names = {"stimulus", "| stimulus on"} | ({"response", "| go cue"} if comes else set())
        assert {text.get_text() for text in column[0].texts} == names
        assert len(column[1].patches) == 1 + comes  # epochs
        stimulus = column[1].lines[0]
        np.testing.assert_array_equal(stimulus.get_ydata()[:-1], trials.inputs["stimulus"][trial, :, 0])
        np.testing.assert_allclose(stimulus.get_xdata(), 0.02 * np.arange(21), rtol=1e-6)
        assert f"side {trials.conditions['side'][trial]:g}" in column[0].get_title().replace("\xa0", " ")
        upright = [line.get_xdata()[0] for line in column[1].lines if len(line.get_xdata()) == 2]
        steps = np.array([trials.timeline.events[name][trial] for name in ("stimulus on", "go cue")])
        np.testing.assert_allclose(upright, 0.02 * steps[steps < 20], atol=1e-6)  # lines where events come
    assert {bool(happens) for happens in trials.timeline.happens("go cue")} == {True, False}


def test_show_task_prints_the_table_and_draws_the_trials(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(TASKS, "choose", Choose)
    main(["show-task", "choose", "--trials", "2", "--seed", "3"])
    assert (tmp_path / "figures" / "choose.png").stat().st_size > 5_000
    out = capsys.readouterr().out
    assert str(Choose().describe()) in out and out.endswith("figures/choose.png\n")
    assert "overwrite" in complaint(["show-task", "choose"], capsys)
    main(["show-task", "choose", "--overwrite", "--trials", "1", "--out", "figures/other.pdf"])
    assert (tmp_path / "figures" / "other.pdf").read_bytes().startswith(b"%PDF")
    assert not plt.get_fignums()


def test_tasks_are_found_by_their_name_or_by_that_of_an_experiment(monkeypatch):
    assert isinstance(find_task("center-out"), tasks.CenterOutReaches)
    monkeypatch.delitem(TASKS, "center-out")
    assert isinstance(find_task("center-out"), tasks.RandomReaches)

"""The figures of runs: those of an experiment that draws none of its own, and of tasks."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from small_experiment import Sum

from popsim.experiments import AbstractExperiment, Cognitive, run_figures
from popsim.tasks import TASKS, PerceptualDecision


class Undrawn(Sum):
    """Networks learn to sum up."""

    draw_figures = AbstractExperiment.draw_figures


def test_an_experiment_that_draws_nothing_shows_its_learning_curves(as_users_run):
    batches, losses = np.arange(40), np.geomspace(1.0, 0.1, 40)[:, None] * np.ones(3)
    untrained = 2.0 * np.ones((3, 4))
    arrays = {"batch": batches, "total_loss": losses}
    arrays |= {"validation_batch": batches[19::20], "total_validation_loss": losses[19::20]}
    run = SimpleNamespace(
        experiment=Undrawn(n_members=3),
        models=lambda *, batch: {-1: "untrained"}[batch],
        evaluate=lambda ensemble: SimpleNamespace(losses=SimpleNamespace(total=untrained)),
        history=SimpleNamespace(**{name: SimpleNamespace(values=own) for name, own in arrays.items()}),
    )
    (figure,) = run.experiment.draw_figures(run).values()
    training, validation = (line for line in figure.figure.axes[0].lines if "mean" in line.get_label())
    np.testing.assert_allclose(training.get_xdata(), batches + 1)
    np.testing.assert_allclose(validation.get_xdata(), [1, 20, 40])  # from before training on
    np.testing.assert_allclose(validation.get_ydata(), [2.0, losses[19, 0], losses[39, 0]])
    assert "before training and after every 100 batches" in figure.caption
    plt.close(figure.figure)


def test_an_input_comes_at_its_event(monkeypatch):
    """The cue that goes off at the go cue does so where the line of the event is drawn."""
    task = PerceptualDecision()
    trials = task.validation_trials()
    states = SimpleNamespace(network=SimpleNamespace(output=jnp.zeros((1, *trials.targets.values.shape))))
    run = SimpleNamespace(task=task, history=None, evaluate=lambda: SimpleNamespace(states=states))
    monkeypatch.setattr(run_figures, "draw_learning_figures", lambda run: {})
    figures = Cognitive().draw_figures(run)
    name = next(name for name in sorted(trials.inputs) if "fixation" in name)
    ax = next(ax for ax in figures["trials"].figure.axes if ax.get_ylabel() == name)
    signal, *events = ax.lines
    values = np.asarray(jax.tree.leaves(trials.inputs[name])[0])[0, :, 0]
    changed = signal.get_xdata()[np.flatnonzero(np.diff(values))[-1] + 1]
    go = float(trials.timeline.events["go cue"][0]) * trials.timeline.dt
    np.testing.assert_allclose(changed, go, rtol=1e-6)
    assert any(np.allclose(line.get_xdata(), go) for line in events)
    for drawn in figures.values():
        plt.close(drawn.figure)


def test_a_force_pulse_is_a_bar_between_the_events_of_its_trial():
    trials = TASKS["postural-hold"]().validation_trials()
    position = np.asarray(trials.targets.position)
    figure = run_figures.draw_trials(trials, position, position, label="cursor")
    rows = np.reshape(figure.axes, (3, 4))
    assert [text.get_text() for text in rows[1, 0].get_yticklabels()] == ["constant force"]
    active = np.asarray(trials.interventions["constant force"].active).any(axis=1)
    for ax, trial in zip(rows[1], (0, 6, 11, 17), strict=True):
        ends = [path.get_extents().intervalx for bars in ax.collections for path in bars.get_paths()]
        steps = [float(trials.timeline.events[name][trial]) for name in ("pulse on", "pulse off")]
        times = np.multiply(steps, trials.timeline.dt)
        np.testing.assert_allclose(np.ravel(ends), times if active[trial] else [], rtol=1e-6)
    assert 0 < active[[0, 6, 11, 17]].sum() < 4
    caption = run_figures._trials_figure(figure, trials, "").caption
    assert "4 of 18 validation trials" in caption and "Bars are interventions" in caption
    plt.close(figure)

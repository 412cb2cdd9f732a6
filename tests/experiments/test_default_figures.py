"""The figures of an experiment that draws none of its own."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
from small_experiment import Sum

from popsim.experiments import AbstractExperiment


class Undrawn(Sum):
    """Networks learn to sum up."""

    draw_figures = AbstractExperiment.draw_figures


def test_an_experiment_that_draws_nothing_shows_its_learning_curves(as_users_run):
    batches, losses = np.arange(40), np.geomspace(1.0, 0.1, 40)[:, None] * np.ones(3)
    untrained = 2.0 * np.ones((3, 4))

    def values(array):
        return SimpleNamespace(values=array)

    run = SimpleNamespace(
        experiment=Undrawn(n_members=3),
        models=lambda *, batch: {-1: "untrained"}[batch],
        evaluate=lambda ensemble: SimpleNamespace(losses=SimpleNamespace(total=untrained)),
        history=SimpleNamespace(
            batch=values(batches),
            total_loss=values(losses),
            validation_batch=values(batches[19::20]),
            total_validation_loss=values(losses[19::20]),
        ),
    )
    (figure,) = run.experiment.draw_figures(run).values()
    training, validation = (line for line in figure.figure.axes[0].lines if "mean" in line.get_label())
    np.testing.assert_allclose(training.get_xdata(), batches + 1)
    np.testing.assert_allclose(validation.get_xdata(), [1, 20, 40])  # from before training on
    np.testing.assert_allclose(validation.get_ydata(), [2.0, losses[19, 0], losses[39, 0]])
    assert "before training and after every 100 batches" in figure.caption
    plt.close(figure.figure)

"""What the report of a sweep says of its settings."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from popsim.analysis.figures import draw_setting_scores
from popsim.report.sweep_report import ScoredSweep, draw_sweep, settings_table

pytestmark = pytest.mark.usefixtures("as_users_run")  # for stand-ins of sweeps

RATES, NOISE, SEEDS = (0.01, 1.0), (0.0, 0.5), (0, 1, 2)
GOOD, WITH_NOISE, UNTRAINED = 1e-3, 1.87, 1e-1  # the losses at the good rate; at the other nothing is learned
SPREAD = np.array([0.8, 1.0, 1.25])


class WithoutLosses(SimpleNamespace):
    """A sweep of which no cell has recorded anything."""

    @property
    def total_loss(self):
        raise ValueError


@pytest.fixture
def scored():
    """A sweep in which noise costs 87 % at the rate that learns, and nothing at the other."""
    grids = np.meshgrid(RATES, NOISE, SEEDS, indexing="ij")
    labels = dict(zip(("rate", "noise", "seed"), map(np.ravel, grids), strict=True))
    cost = np.where(labels["noise"] > 0, WITH_NOISE, 1.0)
    values = np.where(labels["rate"] == RATES[0], GOOD * cost, UNTRAINED) * SPREAD[labels["seed"]]
    experiment = SimpleNamespace(units=dict, select_every=None, member_settings={})
    sweep = SimpleNamespace(axes={"rate": RATES, "noise": NOISE}, experiment=experiment)
    opened = WithoutLosses(sweep=sweep, labels=labels)
    yield ScoredSweep(opened, "validation_loss", "validation loss", values)
    plt.close("all")


def test_settings_that_did_not_learn_do_not_decide_what_others_cost(scored):
    figures = dict(figure for draw in draw_sweep(scored).values() for figure in draw().items())
    means = [bar.lines[0].get_ydata()[0] for bar in figures["noise_scores"].figure.axes[0].containers]
    np.testing.assert_allclose(means[1] / means[0], np.sqrt(WITH_NOISE))  # of no cost, and of 87 %
    texts = [text.get_text() for text in figures["rate_noise"].figure.axes[0].texts]
    assert texts[:2] == ["0.001", "0.00187"]
    assert "geometric mean" in figures["noise_scores"].caption


def test_intervals_of_losses_are_those_of_logarithms(scored):
    best = settings_table(scored).rows[0].values
    assert "validation loss, geometric mean" in settings_table(scored).columns[3].title
    reach = np.exp(4.302652729911275 * np.log(SPREAD).std(ddof=1) / np.sqrt(3))  # Student's t of two
    assert best[3] == f"{GOOD:.4g} ({GOOD / reach:.4g} to {GOOD * reach:.4g})"


def test_two_members_have_a_mean_and_no_interval():
    _, ax = plt.subplots()
    draw_setting_scores(ax, [np.array([1.0, 4.0])], names=["a"], axis="rate", label="loss")
    mean, _, (bar,) = ax.containers[0].lines
    np.testing.assert_allclose(mean.get_ydata(), 2)
    np.testing.assert_allclose(bar.get_segments()[0][:, 1], 2)
    plt.close("all")


def test_scores_of_any_sign_have_their_mean(scored):
    shifted = ScoredSweep(scored.opened, "result_a", "a (mm)", scored.values - 0.05)
    table = settings_table(shifted)
    assert table.columns[3].title == "a (mm), mean and 95 % interval"
    assert table.rows[0].values[3].startswith(f"{(GOOD * SPREAD - 0.05).mean():.4g}")

"""What the report says of weights, activity and members, and of what it leaves out."""

from types import SimpleNamespace

import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray

import popsim
from popsim.report.run_report import draw_neural_activity, draw_similarity, draw_weights

pytestmark = pytest.mark.usefixtures("as_users_run")  # for stand-ins of runs

N_MEMBERS, N_TRIALS, N_STEPS, N_UNITS = 3, 4, 20, 6


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def build(key):
    network = popsim.networks.LeakyRNN(2, N_UNITS, 2, tau=2.0, dt=1.0, key=key)
    return popsim.NetworkModel(network, dt=1.0)


def activity(seed, n_members=N_MEMBERS):
    return np.random.default_rng(seed).normal(size=(n_members, N_TRIALS, N_STEPS, N_UNITS))


@pytest.fixture
def run():
    """A run whose recurrent weights moved in one direction, and whose units had random activity."""
    untrained = popsim.make_ensemble(build, N_MEMBERS, key=jax.random.key(0))
    start = np.asarray(untrained.network.recurrent_weights, np.float64)
    direction = np.outer(np.arange(N_UNITS), np.ones(N_UNITS))
    rows = np.stack([start + step * direction for step in (0.1, 0.2, 0.3)])
    dims = ("trainables_batch", "member", "post", "pre")
    dataset = xarray.Dataset(
        {"trainables.network.recurrent_weights": (dims, rows)}, {"trainables_batch": [9, 19, 29]}
    )
    hidden = {"trained": activity(1), "untrained": activity(2)}

    def evaluate(ensemble):
        kind = "trained" if np.all(ensemble.network.bias == 7.0) else "untrained"
        return SimpleNamespace(states=SimpleNamespace(network=SimpleNamespace(hidden=hidden[kind])))

    trials = SimpleNamespace(conditions={"direction": np.arange(N_TRIALS) * np.pi / 2})
    return SimpleNamespace(
        hidden=hidden,
        ensemble=eqx.tree_at(lambda model: model.network.bias, untrained, replace_fn=lambda b: b * 0 + 7.0),
        models=lambda *, batch: untrained,
        history=SimpleNamespace(dataset=dataset, trainables_batch=dataset.trainables_batch),
        experiment=SimpleNamespace(n_members=N_MEMBERS, key=lambda purpose: jax.random.key(3)),
        evaluate=evaluate,
        task=SimpleNamespace(validation_trials=lambda: trials),
    )


def test_weights_that_moved_in_one_direction_have_participation_ratio_one(run):
    drawn = draw_weights(run)
    assert set(drawn) == {"weight_distances", "weight_change"}
    assert "is 1.0 on average (1.0 to 1.0), of 6 modes" in drawn["weight_change"].caption
    (line,) = drawn["weight_distances"].figure.axes[0].lines
    assert np.all(np.diff(line.get_ydata()) > 0) and line.get_xdata().tolist() == [10, 20, 30]


def test_without_weights_or_with_weights_that_stayed_nothing_is_said_of_them(run):
    dataset = run.history.dataset
    run.history.dataset = dataset.isel(trainables_batch=[0])
    assert draw_weights(run) is None
    start = np.asarray(run.models(batch=-1).network.recurrent_weights, np.float64)
    run.history.dataset = dataset.copy(
        data={"trainables.network.recurrent_weights": np.broadcast_to(start, (3, *start.shape))}
    )
    assert set(draw_weights(run)) == {"weight_distances"}


def test_activity_is_shown_with_its_dimensions(run):
    drawn = draw_neural_activity(run)
    assert set(drawn) == {"explained_variance", "state_space"}
    assert all(said in drawn["explained_variance"].caption for said in ("6 units", "3 members"))
    run.hidden["trained"][0, 0, 0, 0] = np.nan
    assert draw_neural_activity(run) is None


def test_members_are_beside_those_before_training_without_silent_ones_and_those_not_finite(run):
    drawn = draw_similarity(run)
    assert set(drawn) == {"member_distances", "member_map"}
    assert "3 trained members, and 3 before training" in drawn["member_map"].caption
    run.hidden["untrained"][1] = 0.0
    run.hidden["trained"][0, 0, 0] = np.inf
    assert "2 trained members, and 2 before training" in draw_similarity(run)["member_map"].caption
    run.hidden["untrained"][:] = 1.0
    assert draw_similarity(run) is None


def test_of_a_network_without_activity_it_is_said_that_it_has_none(run):
    run.hidden.update({name: (values, values) for name, values in run.hidden.items()})
    for draw in (draw_neural_activity, draw_similarity):
        assert str(draw(run)).endswith("LeakyRNN does not implement AbstractNetwork.activity")

import equinox as eqx
import jax
import numpy as np
import optax
import pytest
from small_training import assert_same, build, train

import popsim
from popsim.store import leaf_names
from popsim.training import TaskTrainer, adam, select_trainables, sgd
from popsim.training.loop.batches import training_phases

pytestmark = pytest.mark.slow


def recurrent(model):
    return model.network.recurrent_weights


def readout(model):
    return model.network.readout


def row(history, batch):
    return jax.tree.map(lambda rows: rows[batch], history.model_trainables)


def moments(history):
    """What Adam holds of the gradients, in the structure of the parameters."""
    return optax.tree_utils.tree_get(history.opt_state, "mu")


def test_each_phase_trains_its_own_part_and_the_history_holds_all_parts():
    _, history = train(6, where_train={0: readout, 3: recurrent}, save_model_trainables=True)
    start = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    for batch in range(3):
        np.testing.assert_array_equal(recurrent(row(history, batch)), recurrent(start))
    for batch in range(3, 6):
        assert_same(readout(row(history, batch)), readout(row(history, 2)))
        assert not np.array_equal(recurrent(row(history, batch)), recurrent(row(history, batch - 1)))
    assert not np.array_equal(readout(row(history, 2)).bias, readout(start).bias)
    assert history.model_trainables.network.bias is None


def test_a_time_constant_is_trained_in_the_phase_that_picks_it():
    model, tau = build(jax.random.key(0)), "network.tau"
    where_train, phases = training_phases(model, {0: lambda m: m.network, 3: lambda m: m.network.tau})
    params, _ = select_trainables(model, where_train)
    first, then = (leaf_names(eqx.filter(params, trained)) for trained in phases.values())
    assert set(then) == {tau} and set(first) == set(leaf_names(params)) - {tau}
    assert set(first) == set(leaf_names(eqx.filter(model, popsim.is_parameter(model))))


def test_the_optimizer_keeps_what_it_holds_of_parts_that_pause():
    """The moments of Adam neither decay nor grow; those of what trains do."""
    both = lambda model: (recurrent(model), readout(model))  # noqa: E731
    paused = moments(train(3, where_train={0: both, 1: readout})[1])
    after_one = moments(train(1, where_train=both)[1])
    np.testing.assert_array_equal(recurrent(paused), recurrent(after_one))
    assert np.all(recurrent(after_one) != 0)
    assert not np.array_equal(readout(paused).weight, readout(after_one).weight)


@pytest.mark.full
def test_clipping_sees_the_phase_alone():
    """The step of plain descent with a small clip norm has that norm, over the phase's leaves."""
    trainer = TaskTrainer(sgd(1.0, clip_norm=1e-3))
    _, history = train(3, trainer=trainer, where_train={0: recurrent, 1: readout}, save_model_trainables=True)
    step = jax.tree.map(lambda rows: rows[2] - rows[1], readout(history.model_trainables))
    norm = np.sqrt(sum(np.sum(leaf**2, axis=tuple(range(1, leaf.ndim))) for leaf in jax.tree.leaves(step)))
    np.testing.assert_allclose(norm, 1e-3, rtol=1e-2)


@pytest.mark.filterwarnings("ignore:the optimizer does not tell its learning rate")
def test_an_optimizer_that_cannot_hold_what_is_idle_is_refused():
    with pytest.raises(ValueError, match="`optimizer` cannot train this model where `where_train`"):
        train(6, trainer=TaskTrainer(optax.lbfgs()), where_train={0: readout, 3: recurrent})


@pytest.mark.full
def test_members_whose_rates_differ_train_in_phases():
    """Each under its own rate, also when the optimizer's state is made anew, as if trained alone."""
    rates = popsim.PerMember([1e-3, 1e-2]) * optax.cosine_decay_schedule(1.0, 8)
    phases = {0: readout, 2: lambda m: (recurrent(m), readout(m))}
    options = {"where_train": phases, "reset_opt_state_at": [3]}
    model, history = train(5, trainer=TaskTrainer(adam(rates, clip_norm=1.0)), **options)
    np.testing.assert_allclose(history.learning_rate[:, 1], 10 * history.learning_rate[:, 0], rtol=1e-6)
    for index, rate in enumerate([1e-3, 1e-2]):
        alone = adam(optax.cosine_decay_schedule(rate, 8), clip_norm=1.0)
        own, _ = train(5, trainer=TaskTrainer(alone), **options)
        assert_same(popsim.member(model, index), popsim.member(own, index), atol=1e-6)

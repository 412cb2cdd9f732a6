"""Scores that are not finite select nobody, and weights beyond half precision are named."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_training import build, squared_error, train

import popsim
from popsim.training import (
    BinaryTournament,
    PopulationBasedTraining,
    TaskTrainer,
    Truncation,
    adam,
)
from popsim.training.population_updates.selection import select_parents

ERROR = popsim.FunctionTerm("squared_error", squared_error)


@pytest.mark.parametrize("rule", [Truncation(0.34), Truncation(0.5), BinaryTournament()])
def test_without_a_finite_score_all_keep_their_own(rule):
    selection = PopulationBasedTraining(2, rule)
    for value in (jnp.nan, jnp.inf, -jnp.inf):
        for seed in range(5):
            parents = select_parents(selection, jnp.full(6, value), key=jax.random.key(seed))
            assert parents.tolist() == [*range(6)]
    one_is_finite = jnp.full(6, jnp.nan).at[2].set(1.0)
    taken = {int(select_parents(selection, one_is_finite, key=jax.random.key(seed))[5]) for seed in range(20)}
    assert 2 in taken and taken <= {2, 5}


def nothing(states, trials):
    return jnp.full(states.network.output.shape[0], jnp.nan)


@pytest.mark.slow
@pytest.mark.full
def test_a_score_that_is_nan_for_all_is_named_and_selects_nobody():
    rates = popsim.PerMember([1e-3, 1e-2, 1e-1])
    trainer = TaskTrainer(adam(rates), population_updates=[PopulationBasedTraining(2, score=nothing)])
    with pytest.warns(UserWarning, match="`score` of the selection must be finite for some member"):
        _, history = train(6, n_members=3, trainer=trainer)
    assert np.all(history.updates["selection"]["parent"] == np.arange(3))
    np.testing.assert_allclose(
        history.updates["selection"]["hyperparameter.learning_rate"], [rates.values] * 2
    )


@pytest.mark.slow
@pytest.mark.parametrize("on_disk", [False, True])
def test_weights_beyond_float16_are_named_and_the_model_has_them(on_disk, tmp_path):
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    bias = ensemble.network.bias.at[1].set(1e5)
    ensemble = eqx.tree_at(lambda model: model.network.bias, ensemble, bias)
    trainer = TaskTrainer(adam(1e-2), chkpt_dir=tmp_path / "run") if on_disk else TaskTrainer(adam(1e-2))
    options = {"ensemble": ensemble, "trainer": trainer, "save_model_trainables": np.array([1, 3])}
    with pytest.warns(UserWarning, match="bias after batch 1 has numbers beyond 65504.*float16") as told:
        trained, history = train(4, trainables_dtype="float16", **options)
    assert len(told) == 1 and np.all(np.isfinite(trained.network.bias))
    kept = np.asarray(history.model_trainables.network.bias)
    assert np.all(np.isinf(kept[:, 1])) and np.all(np.isfinite(kept[:, 0]))

"""Numbers that the precision cannot hold: settings, scores that select, and weights kept in half of it."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_training import build, squared_error, train
from swept_runs import Swept

import popsim
from popsim.experiments import CenterOut, Cognitive
from popsim.training import (
    BinaryTournament,
    PopulationBasedTraining,
    TaskTrainer,
    Truncation,
    adam,
    cosine_decay,
    inject_hyperparams,
    sgd,
)
from popsim.training.population_updates.selection import select_parents

ERROR = popsim.FunctionTerm("squared_error", squared_error)


PLACES = {
    "a setting": ("`learning_rate`", lambda number, path: CenterOut(learning_rate=number)),
    "a setting of a task": ("effort_weight", lambda number, path: CenterOut(effort_weight=number)),
    "one of two settings": ("vision_noise", lambda number, path: CenterOut(vision_noise=(0.1, number))),
    "a setting that may be None": ("hidden_noise", lambda number, path: Cognitive(hidden_noise=number)),
    "adam": ("`learning_rate`", lambda number, path: adam(number)),
    "an array": ("`learning_rate`", lambda number, path: adam(np.float64(number))),
    "sgd": ("`learning_rate`", lambda number, path: sgd(number)),
    "clipping": ("clip_norm", lambda number, path: adam(1e-3, clip_norm=number)),
    "members": ("values", lambda number, path: adam(popsim.PerMember([1e-3, number]))),
    "many members": ("values", lambda number, path: popsim.PerMember(np.append(np.ones(100), number))),
    "a schedule": ("`learning_rate`", lambda number, path: adam(cosine_decay(number, 10))),
    "any optimizer": (
        "weight_decay",
        lambda number, path: inject_hyperparams(optax.adamw)(1e-3, weight_decay=number),
    ),
    "a loss": ("weights", lambda number, path: number * ERROR),
    "a network": ("tau", lambda number, path: build(jax.random.key(0), tau=number)),
    "noise": ("a parameter", lambda number, path: popsim.noise.GaussianNoise(number)),
}


@pytest.mark.parametrize("number", [1e-50, 5e-324, 1e-40, 1e300])
@pytest.mark.parametrize("place", PLACES)
def test_a_setting_that_would_be_lost_is_refused_by_name(place, number, tmp_path, as_users_run):
    name, make = PLACES[place]
    becomes = "0" if number < 1 else "infinite"
    with pytest.raises(
        ValueError, match=f"{name}.*{re.escape(str(number))}, which becomes {becomes} in float32"
    ):
        make(number, tmp_path)


def test_what_float64_holds_is_accepted_there():
    with jax.enable_x64(True):
        assert Swept(rate=1e-50).rate == 1e-50
        assert popsim.PerMember([1e-50, 1.0]).values[0] > 0
        adam(1e-50)


@pytest.mark.parametrize("number", [0.0, 1.2e-38, -1.2e-38, 3.4e38, 1, -1.0])
def test_what_float32_holds_is_accepted(number):
    assert Swept(rate=number).rate == number
    assert popsim.PerMember([float(number)]).values[0] == np.float32(number)


def test_the_tails_of_data_may_vanish():
    tails = np.exp(-(np.linspace(0, 20, 100) ** 2))
    popsim.schedules.PiecewiseSchedule((0,), [tails])


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

"""Population-based training: who replaces whom, what is inherited, resumed and sharded, and what it gains."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import mostly_in_full

import popsim
from popsim.training import (
    PopulationBasedTraining,
    TaskTrainer,
    sgd,
)

N_COORDINATES, N_STEPS, N_MEMBERS, START = 200, 400, 16, 1.0


class Noisy(popsim.AbstractTask):
    """Half the squared distance of weights x from noise: a step of rate a is x <- (1 - a) x + a noise."""

    loss: popsim.Loss = eqx.field(default_factory=lambda: 1.0 * popsim.FunctionTerm("half", half_square))

    def trial(self, *, batch, key):
        noise = jax.random.normal(key, (1, N_COORDINATES))
        return popsim.Trial((), jnp.zeros((1, 1)), noise, popsim.Timeline(dt=1.0, n_steps=1))

    def validation_trials(self):
        silent = popsim.Trial(
            (), jnp.zeros((1, 1)), jnp.zeros((1, N_COORDINATES)), popsim.Timeline(dt=1.0, n_steps=1)
        )
        return jax.tree.map(lambda leaf: leaf[None], silent)


def half_square(states, trial, model):
    return 0.5 * jnp.sum((states - trial.targets) ** 2)


class Point(popsim.AbstractModel):
    x: jax.Array

    def init(self, trial, *, key):
        return jnp.zeros(N_COORDINATES)

    def step(self, step_input, state, *, key):
        return self.x


def best_of_constant_rates():
    """The smallest mean of x^2 that a constant rate a reaches: with d = (1 - a)^2,
    E x_t^2 = d^t x_0^2 + a^2 (1 - d^t) / (1 - d)."""
    rates = np.geomspace(1e-4, 1, 2000)
    decay = (1 - rates) ** 2
    left = decay**N_STEPS
    return np.min(left * START**2 + rates**2 * (1 - left) / (1 - decay))


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_in_full(range(5), short=[0]))
def test_selection_beats_the_best_constant_rate_on_a_noisy_quadratic(seed):
    points = popsim.make_ensemble(
        lambda key: Point(jnp.full(N_COORDINATES, START)), N_MEMBERS, key=jax.random.key(0)
    )
    rates = popsim.PerMember(jnp.geomspace(1e-3, 1.0, N_MEMBERS))
    trainer = TaskTrainer(sgd(rates), selection=PopulationBasedTraining(10))
    trained, history = trainer(
        Noisy(),
        points,
        N_STEPS,
        1,
        lambda model: model,
        ensembled=True,
        disable_tqdm=True,
        key=jax.random.key(seed),
    )
    squares = np.mean(np.asarray(trained.x) ** 2, axis=1)
    print(
        np.median(squares), best_of_constant_rates(), history.selection.hyperparameters["learning_rate"][-1]
    )
    assert np.median(squares) < best_of_constant_rates()

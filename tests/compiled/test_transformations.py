"""Public functions that are pure, within `jit`, `grad` and `vmap` of the user's own."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth
from small_reaches import small_reach_setup

import popsim
from popsim import interventions, plants, tasks, training
from popsim.analysis import behaviour

NO_REVERSE_MODE = {"plants.simulate_plant_adaptively": "chooses its own number of steps; says so"}
DT, WHOLE_TRIAL = 0.01, popsim.windows.WholeTrial()


def scaled(tree, x):
    """Every number of a PyTree times `x`, so that all of them are traced where `x` is."""
    return jax.tree.map(lambda leaf: leaf * x if eqx.is_inexact_array(leaf) else leaf, tree)


def key(x):
    return jax.random.key(x.astype(int))


@functools.cache
def reaching():
    """A small model that reaches, its task, and one trial."""
    task, build = small_reach_setup(n_units=2, duration=0.04)
    trials = jax.tree.map(lambda leaf: leaf[:2], task.validation_trials())
    return build(jax.random.key(0)), task, trials, jax.tree.map(lambda leaf: leaf[0], trials)


@pytest.fixture(autouse=True, scope="module")
def built_outside():
    """So that nothing of it is traced."""
    reaching()


def model(x):
    return scaled(reaching()[0], x)


def ensemble(x):
    _, build = small_reach_setup(n_units=2, duration=0.04)
    return popsim.make_ensemble(build, 2, key=key(x))


def task(x):
    return scaled(reaching()[1], x)


def trials(x):
    return scaled(reaching()[2], x)


def trial(x):
    return scaled(reaching()[3], x)


def aligned(x):
    with_event = eqx.tree_at(lambda t: t.timeline.events, trials(x), {"go": jnp.array([1, 2])})
    return popsim.analysis.align_to_event(values(x), with_event, "go", before=DT, after=2 * DT)


def values(x):
    return x * jnp.arange(8.0).reshape(2, 4)


def outputs(x):
    target = popsim.OutputTarget(jnp.tile(jnp.array([1.0, 0.0]), (2, 4, 1)), jnp.ones((2, 4)))
    return values(x)[..., None] * jnp.array([1.0, -1.0]), target


def rest_state(x):
    return model(x).init(trial(x), key=key(x))


def scheduled(x):
    """A clamped unit and a load in the hand: what they do, and that it acts now."""
    held = (interventions.StimulateUnits(), interventions.ConstantForce(), interventions.LoadMass())
    parameters = (x * jnp.ones(2), x * jnp.ones(2), x)
    schedules = [popsim.interventions.InterventionSchedule(own, jnp.array(True)) for own in parameters]
    return held, {one.name: when for one, when in zip(held, schedules, strict=True)}


def load(x):
    held, when = scheduled(x)
    made = interventions.external_load(held, when, x * jnp.ones(2))
    return made.hand_force(popsim.HandState(x * jnp.ones(2), x * jnp.ones(2))), made.hand_mass


def muscled(x):
    body = scaled(plants.arm26(), x)
    idle = popsim.networks.NetworkState(jnp.zeros(2), jnp.zeros(body.n_commands))
    rest = plants.base.evaluate_rest(body, body.workspace.center)
    return popsim.states.LoopState.at_rest(*rest, idle), body


def plant_run(plant, simulate=plants.simulate_plant):
    return simulate(plant, jnp.full((2, plant.n_commands), 0.1), dt=DT)


def linear(x):
    layer = scaled(eqx.nn.Linear(3, 2, key=jax.random.key(0)), x)
    return training.TrainState.initial_state(layer, training.sgd(0.1), key(x))


def batch(x):
    return {"image": x * jnp.ones((4, 3)), "label": x * jnp.ones((4, 2))}


def criterion(output, label):
    return jnp.mean((output - label) ** 2)


def metrics(output, label, criterion):
    return {"loss": criterion(output, label)}


def bandits(x):
    """Two bandits of three choices, the first arm of which pays with probability x."""
    bandit = tasks.BernoulliBandit(n_choices=3, n_validation_trials=2)
    probabilities = jnp.stack([jnp.stack([x, 1 - x])] * 2)
    return eqx.tree_at(
        lambda trials: trials.environment.probabilities, bandit.validation_trials(), probabilities
    )


PURE = {
    "losses.returns": lambda x: popsim.losses.returns(jnp.stack([x, 2 * x]), 0.9),
    "tasks.play": lambda x: tasks.play(tasks.RandomPlayer(2), bandits(x), key=jax.random.key(0)).record,
    "analysis.align_to_event": aligned,
    "analysis.mean_in_window": lambda x: popsim.analysis.mean_in_window(values(x), trials(x), WHOLE_TRIAL),
    "analysis.behaviour.produced_interval": lambda x: behaviour.produced_interval(
        values(x), jnp.array([0, 1]), dt=DT, threshold=1.5
    ),
    "build_members": lambda x: popsim.build_members(
        lambda key, mass: plants.PointMass(mass * x), popsim.member_grid(2, mass=[1.0, 2.0]), key=key(x)
    ),
    "choice_accuracy": lambda x: popsim.choice_accuracy(*outputs(x)),
    "sample_trials": lambda x: popsim.sample_trials(task(x), 2, batch=0, key=key(x)),
    "evaluate": lambda x: popsim.evaluate(model(x), task(x), key=key(x)).losses,
    "evaluate_ensemble": lambda x: popsim.evaluate_ensemble(ensemble(x), task(x), key=key(x)).losses,
    "interventions.check_scheduled": lambda x: interventions.check_scheduled(
        (interventions.ConstantForce(),),
        popsim.interventions.schedule_intervention(trials(x), "constant force", x * jnp.ones(2)),
    ),
    "interventions.intervene": lambda x: interventions.intervene(
        scheduled(x)[0],
        "think",
        scheduled(x)[1],
        interventions.prepare(*scheduled(x), rest_state(x)),
        key=key(x),
    ),
    "interventions.external_load": load,
    "make_ensemble": ensemble,
    "n_network_inputs": lambda x: popsim.n_network_inputs(trials(x), model(x).plant, model(x).channels),
    "networks.draw_weights": lambda x: popsim.networks.draw_weights(
        model(x).network,
        lambda network: network.cell.weight_hh,
        popsim.networks.per_gate(popsim.networks.spectral_weights(x)),
        key=key(x),
    ),
    "plants.advance": lambda x: plants.advance(
        model(x).plant, rest_state(x).plant, x * jnp.ones(2), plants.Load(lambda hand: x * jnp.ones(2)), dt=DT
    ),
    "plants.simulate_plant": lambda x: plant_run(plants.PointMass(x, damping=x)),
    "plants.simulate_plant_adaptively": lambda x: plant_run(
        plants.PointMass(x, damping=x), plants.simulate_plant_adaptively
    ),
    "repeat_trials": lambda x: popsim.repeat_trials(trials(x), 2),
    "simulate": lambda x: popsim.simulate(model(x), trial(x), key=key(x)),
    "training.train_step": lambda x: (
        training.train_step(linear(x), batch(x), lambda step: 0.1, criterion, metrics)[0].params
    ),
    "training.training_trials": lambda x: training.training_trials(
        task(x), 2, batch=0, member_id=0, key=key(x)
    ),
    "senses.spindle_firing": lambda x: popsim.senses.spindle_firing(*muscled(x)),
}


@pytest.mark.parametrize("name", every_nth(PURE, 4))
def test_pure_functions_are_transformed(name):
    """Traced, which is where a function fails that looks at numbers; nothing is compiled."""

    def total(x):
        return sum((jnp.sum(leaf) for leaf in floats(PURE[name](x))), 0.0 * x)

    @jax.jit
    def transformed(x):
        gradient = (jax.jacfwd if name in NO_REVERSE_MODE else jax.grad)(total)(x)
        return jax.vmap(lambda own: floats(PURE[name](own)))(jnp.stack([x, x])), gradient

    jax.eval_shape(transformed, jnp.asarray(1.0))


def floats(tree):
    return [leaf for leaf in jax.tree.leaves(tree) if eqx.is_inexact_array(leaf)]


def test_evaluations_within_transformations_are_those_outside():
    def mean_loss(mass):
        loop = eqx.tree_at(lambda m: m.plant.mass, reaching()[0], mass)
        return jnp.mean(popsim.evaluate(loop, reaching()[1], key=jax.random.key(0)).losses.total)

    masses = jnp.array([1.0, 1.5])
    losses, slopes = jax.jit(jax.vmap(jax.value_and_grad(mean_loss)))(masses)
    one, above, below = (mean_loss(mass) for mass in (masses[1], masses[1] + 0.01, masses[1] - 0.01))
    np.testing.assert_allclose(losses[1], one, rtol=1e-5)
    np.testing.assert_allclose(slopes[1], (above - below) / 0.02, rtol=1e-2)


def test_what_is_known_is_looked_at_while_something_else_is_traced():
    loop, task, trials, _ = reaching()
    away = eqx.tree_at(lambda t: t.init.position, trials, trials.init.position * jnp.nan)

    @jax.jit
    def loss(key):
        return popsim.evaluate(loop, task, trials=away, key=key).losses.total

    with pytest.raises(ValueError, match="`init.position` must be finite"):
        loss(jax.random.key(0))


def test_what_is_built_within_a_program_is_checked_where_it_is_known():
    corners = jnp.zeros(2), jnp.ones(2)

    @jax.jit
    def middle(low, high, x):
        return popsim.Workspace(low, high).center + x, popsim.Workspace(*corners).center + x

    np.testing.assert_array_equal(jnp.stack(middle(*corners, 1.0)), 1.5)
    with pytest.raises(ValueError, match="`high` of a workspace must exceed `low`"):
        jax.jit(lambda x: popsim.Workspace(*reversed(corners)).center + x)(1.0)

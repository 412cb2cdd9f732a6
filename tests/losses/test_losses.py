"""Every term against numpy and central differences, on states and targets drawn at random."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from central_differences import assert_gradients_agree
from loss_values import values_and_steps
from relay import DT, reach, relay_loop
from wrong_arguments import assert_named_in_one_line, wrong_arguments

import popsim
from popsim import losses
from popsim.losses import EuclideanDistance, HuberDistance, L1Distance

N_STEPS = 7
LATE = (np.arange(1, N_STEPS + 1) / N_STEPS) ** 6
LAST_TWO = np.arange(N_STEPS) >= N_STEPS - 2
EARLY = np.arange(N_STEPS) < 3
IN_EARLY = losses.InWindow(popsim.windows.Between(0.0, 3 * DT))


def at_random(tree, key):
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True)]
    return structure.unflatten(drawn)


@functools.cache
def hand_run():
    """A trial and states whose every number is random: the hand differs from the cursor."""
    keys = jax.random.split(jax.random.key(1), 4)
    model = relay_loop({"vision": popsim.SensoryChannel(popsim.vision)})
    trial = reach(N_STEPS)
    states = at_random(popsim.simulate(model, trial, key=keys[0]), keys[1])
    start, targets = at_random(trial.init, keys[2]), at_random(trial.targets, keys[3])
    return states, dataclasses.replace(trial, init=start, targets=targets), model


@functools.cache
def muscled():
    """An arm with muscles that is pushed about."""
    body = popsim.plants.arm26()
    center = body.workspace.center
    trial = reach(N_STEPS, start=center, target=center + 0.05)
    model = relay_loop({}, plant=body, command=jax.random.uniform(jax.random.key(2), (6,)))
    return popsim.simulate(model, trial, key=jax.random.key(0)), trial, model


@functools.cache
def bare():
    """A network without a body, in states drawn at random."""
    key = jax.random.key(3)
    network = popsim.networks.LeakyRNN(1, 4, 3, tau=0.05, dt=DT, key=key)
    model = popsim.NetworkModel(network, dt=DT)
    trial = popsim.Trial((), jnp.zeros((N_STEPS, 1)), (), popsim.Timeline(DT, N_STEPS))
    return at_random(popsim.simulate(model, trial, key=key), key), trial, model


@pytest.fixture
def run(float64):
    return hand_run()


@pytest.fixture
def bare_run(float64):
    return bare()


def off(states, trial, name="position"):
    """How far the cursor is off in position or velocity."""
    return np.asarray(getattr(states.cursor, name)) - np.asarray(getattr(trial.targets, name))


def length(vectors):
    return np.sqrt(np.sum(np.asarray(vectors) ** 2, axis=-1))


def huber(vectors, delta):
    r = length(vectors)
    return np.where(r <= delta, r**2 / 2, delta * (r - delta / 2))


def beside_the_line(states, trial):
    """From the line start-target to the cursor, by angles."""
    line = np.asarray(trial.targets.position[-1] - trial.init.position)
    moved = np.asarray(states.cursor.position - trial.init.position)
    angle = np.arctan2(*moved.T[::-1]) - np.arctan2(*line[::-1])
    return length(moved) * np.sin(angle)


def accelerations(states, trial):
    velocity = np.vstack([trial.init.velocity, states.hand.velocity])
    return (velocity[1:] - velocity[:-1]) / DT


def jerks(states, trial):
    acceleration = np.vstack([np.zeros(2), accelerations(states, trial)])
    return (acceleration[1:] - acceleration[:-1]) / DT


def changes(values):
    return np.diff(np.asarray(values), axis=0) / DT


def final_state(states, trial):
    x, v = off(states, trial)[-1], off(states, trial, "velocity")[-1]
    return x @ x + 0.3**2 * v @ v


def start(states, trial):
    return np.asarray(states.cursor.position) - np.asarray(trial.init.position)


TERMS = {
    "late": (losses.PositionError(), lambda s, t: LATE @ length(off(s, t)) ** 2),
    "last step": (losses.PositionError(profile=losses.FinalStep()), lambda s, t: np.sum(off(s, t)[-1] ** 2)),
    "last steps": (
        losses.PositionError(profile=losses.FinalSteps(2 * DT)),
        lambda s, t: LAST_TWO @ length(off(s, t)) ** 2,
    ),
    "length": (losses.PositionError(distance=EuclideanDistance()), lambda s, t: LATE @ length(off(s, t))),
    "near and far in Huber's": (
        losses.PositionError(distance=HuberDistance(1.5)),
        lambda s, t: LATE @ huber(off(s, t), 1.5),
    ),
    "velocity": (losses.VelocityError(), lambda s, t: LATE @ length(off(s, t, "velocity")) ** 2),
    "final velocity": (losses.FinalVelocity(), lambda s, t: length(off(s, t, "velocity"))[-1] ** 2),
    "final position": (losses.FinalPosition(), lambda s, t: length(off(s, t))[-1] ** 2),
    "final position, L1": (
        losses.FinalPosition(distance=L1Distance()),
        lambda s, t: np.abs(off(s, t)[-1]).sum(),
    ),
    "final state": (losses.FinalState(velocity_time=0.3), final_state),
    "straightness": (losses.Straightness(), lambda s, t: np.sum(beside_the_line(s, t) ** 2)),
    "straightness, L1 of early": (
        losses.Straightness(distance=EuclideanDistance(), profile=IN_EARLY),
        lambda s, t: EARLY @ np.abs(beside_the_line(s, t)),
    ),
    "hold": (losses.Hold(IN_EARLY.window), lambda s, t: EARLY @ length(start(s, t)) ** 2),
    "hold at target": (
        losses.Hold(IN_EARLY.window, "target", distance=EuclideanDistance()),
        lambda s, t: EARLY @ length(off(s, t)),
    ),
    "acceleration": (losses.Acceleration(), lambda s, t: np.sum(accelerations(s, t) ** 2)),
    "jerk": (losses.Jerk(), lambda s, t: np.sum(jerks(s, t) ** 2)),
    "late jerk": (losses.Jerk(profile=losses.PowerProfile()), lambda s, t: LATE @ length(jerks(s, t)) ** 2),
}

OF_ANY_MODEL = {
    "effort": (losses.Effort(), lambda s: np.sum(np.asarray(s.network.output) ** 2)),
    "effort change": (losses.EffortChange(), lambda s: np.sum(changes(s.network.output) ** 2)),
    "activity": (losses.HiddenActivity(), lambda s: np.sum(np.asarray(s.network.hidden) ** 2)),
    "activity change": (losses.HiddenActivityChange(), lambda s: np.sum(changes(s.network.hidden) ** 2)),
}

OF_MUSCLES = {
    "activation": (losses.MuscleActivation(), lambda s, f: np.sum(np.asarray(s.plant.activation) ** 2)),
    "force": (losses.MuscleForce(), lambda s, f: np.sum(f**2)),
    "force change": (losses.MuscleForceChange(), lambda s, f: np.sum(changes(f) ** 2)),
}


def assert_agree(terms, run, values, key, *, rtol=1e-12, gradient_rtol=1e-6):
    """Values, sums of steps unless a term looks at several at once, and the gradient of all together."""
    found = values_and_steps(terms, *run)
    for term, value, (whole, steps) in zip(terms, values, found, strict=True):
        own = 1e-6 if jax.tree.leaves(term) else rtol  # its own numbers are of single precision
        np.testing.assert_allclose(whole, value, rtol=own, err_msg=term.name)
        assert (steps is None) == (term.name.endswith("change") or term.name in ("acceleration", "jerk"))
        if steps is not None:
            np.testing.assert_allclose(steps, value, rtol=own, err_msg=term.name)
    states, trial, model = run
    scales = [(1 + i) * float(whole) for i, (whole, _) in enumerate(found)]

    def total(own):
        return sum(term(own[1], trial, model) / scale for term, scale in zip(own[0], scales, strict=True))

    assert_gradients_agree(total, (list(terms), states), key, rtol=gradient_rtol)


def test_terms_of_the_hand(run, getkey):
    terms = [jax.tree.map(lambda leaf: leaf.astype(float), term) for term, _ in TERMS.values()]
    values = [by_hand(*run[:2]) for _, by_hand in TERMS.values()]
    assert_agree(terms, run, values, getkey(), gradient_rtol=1e-5)


@pytest.mark.parametrize("has_body", [True, False])
def test_terms_of_the_network(run, bare_run, has_body, getkey):
    own = run if has_body else bare_run
    values = [by_hand(own[0]) for _, by_hand in OF_ANY_MODEL.values()]
    assert_agree([term for term, _ in OF_ANY_MODEL.values()], own, values, getkey())


def test_terms_of_muscles(run, bare_run, getkey):
    states, _, model = muscled_run = muscled()
    body = model.plant
    forces = np.asarray(jax.jit(jax.vmap(body.muscles))(states.plant).force / body.muscle.max_isometric_force)
    assert forces.max() > 0.05 and np.ptp(forces, axis=0).max() > 0.01
    terms = [term for term, _ in OF_MUSCLES.values()]
    values = [by_hand(states, forces) for _, by_hand in OF_MUSCLES.values()]
    assert_agree(terms, muscled_run, values, getkey(), rtol=1e-9, gradient_rtol=1e-4)
    for term in terms:
        with pytest.raises(ValueError, match=f"muscles.*'{term.name}', got a PointMass"):
            term(*run)
        with pytest.raises(ValueError, match="got a NetworkModel without a body"):
            term(*bare_run)


def test_where_a_term_is_singular_its_gradient_is_zero(run):
    """The cursor on the target, and a target at the start."""
    states, trial, model = run
    on_target = dataclasses.replace(states, cursor=trial.targets)
    stays = dataclasses.replace(trial, init=jax.tree.map(lambda leaf: leaf[-1], trial.targets))
    terms = [losses.Straightness(distance=EuclideanDistance()), losses.Straightness()]
    for distance in (EuclideanDistance(), L1Distance(), HuberDistance(1.0)):
        terms += [kind(distance=distance) for kind in (losses.PositionError, losses.VelocityError)]
        terms += [kind(distance=distance) for kind in (losses.FinalPosition, losses.FinalVelocity)]

    @eqx.filter_jit
    def slopes(states):
        return [eqx.filter_value_and_grad(lambda own, t=term: t(own, stays, model))(states) for term in terms]

    for term, (at_target, gradient) in zip(terms, slopes(on_target), strict=True):
        assert at_target == 0, term
        assert all(np.all(np.asarray(leaf) == 0) for leaf in jax.tree.leaves(gradient)), term


def test_in_a_catch_trial_what_counts_after_the_go_cue_is_zero(run):
    """Also within a batch, where which trial it is cannot be known when compiled."""
    states, trial, model = run
    steps = jnp.array([3, popsim.NEVER])
    after = popsim.windows.FromEvent("go cue")
    profiles = [losses.InWindow(after), losses.PowerProfile(0.5, window=after)]
    terms = [losses.Hold(after), losses.Hold(after, "target", distance=EuclideanDistance())]
    for kind in (losses.PositionError, losses.Jerk, losses.Effort, losses.HiddenActivityChange):
        terms += [kind(profile=profile) for profile in profiles]

    def values(states, step):
        timeline = dataclasses.replace(trial.timeline, events={"go cue": step})
        own = dataclasses.replace(trial, timeline=timeline)
        return [eqx.filter_value_and_grad(lambda s, t=term: t(s, own, model))(states) for term in terms]

    found = jax.jit(jax.vmap(values, (None, 0)))(states, steps)
    for term, (of_trials, gradients) in zip(terms, found, strict=True):
        assert of_trials[0] > 0 and of_trials[1] == 0, term
        for leaf in jax.tree.leaves(gradients):
            assert np.all(np.isfinite(leaf)) and np.all(leaf[1] == 0), term


def test_the_usual_reach_loss_weighs_its_terms_in_si_units(run):
    states, trial, _ = run
    values = popsim.tasks.reach_loss()(*run)
    expected = {
        "position error": LATE @ length(off(states, trial)) ** 2,
        "final velocity": 0.1 * length(off(states, trial, "velocity"))[-1] ** 2,
        "effort": 1e-6 * np.sum(np.asarray(states.network.output) ** 2),
        "hidden activity": 1e-8 * np.sum(np.asarray(states.network.hidden) ** 2),
    }
    assert values.terms.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(values.terms[name], value, rtol=1e-12)
    assert jnp.isclose(values.total, sum(expected.values()))


class TwoAxes(losses.AbstractTimeProfile):
    """A mistake: an axis too many, which would be spread over time."""

    def __call__(self, timeline):
        return jnp.ones((timeline.n_steps, 1))


class KeptAxis(losses.AbstractDistance):
    def __call__(self, difference):
        return jnp.sum(difference**2, axis=-1, keepdims=True)


def called(term, states=None, **parts):
    """A term in other states, or in a trial of other parts."""
    own, trial, model = hand_run()
    return term(own if states is None else states, dataclasses.replace(trial, **parts), model)


def narrow():
    """Targets with one velocity too few, which no check of signatures lets through."""
    return popsim.HandState(jnp.zeros((N_STEPS, 2)), jnp.zeros((N_STEPS, 1)))


@pytest.mark.usefixtures("as_users_run", "float64")
@wrong_arguments(
    terms=[
        ("profile", lambda: called(losses.PositionError(profile=TwoAxes()))),
        ("profile", lambda: called(losses.Effort(profile=TwoAxes()))),
        ("distance", lambda: called(losses.PositionError(distance=KeptAxis()))),
    ],
    trials=[
        ("init.position", lambda: called(losses.Straightness(), init=popsim.HandState(*jnp.zeros((2, 1))))),
        ("targets", lambda: called(losses.FinalState(), targets=jnp.zeros((N_STEPS, 2)))),
        *(("targets.velocity", lambda kind=kind: called(kind(), targets=narrow()))
          for kind in (losses.PositionError, losses.VelocityError, losses.FinalState, losses.Straightness)),
    ],
)  # fmt: skip
def test_what_would_be_spread_over_time_or_coordinates_is_refused(argument, call):
    assert_named_in_one_line(argument, call)

"""Every term against numpy and central differences, on states and targets drawn at random."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from central_differences import assert_gradients_agree
from loss_references import (
    accelerations,
    beside_the_line,
    changes,
    final_state,
    huber,
    jerks,
    length,
    off,
    start,
    sum_of_costs,
)
from relay import DT, reach, relay_loop

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


@pytest.fixture
def run(float64, getkey):
    """A trial and states whose every number is random: the hand differs from the cursor."""
    model = relay_loop({"vision": popsim.SensoryChannel(popsim.vision)})
    trial = reach(N_STEPS)
    states = at_random(popsim.simulate(model, trial, key=getkey()), getkey())
    moved = {name: at_random(getattr(trial, name), getkey()) for name in ("init", "targets")}
    return states, dataclasses.replace(trial, **moved), model


@pytest.fixture
def muscled_run(float64, getkey):
    """An arm with muscles that is pushed about."""
    body = popsim.plants.arm26()
    center = body.workspace.center
    trial = reach(N_STEPS, start=center, target=center + 0.05)
    model = relay_loop({}, plant=body, command=jax.random.uniform(getkey(), (6,)))
    return popsim.simulate(model, trial, key=getkey()), trial, model


@pytest.fixture
def bare_run(float64, getkey):
    """A network without a body, in states drawn at random."""
    network = popsim.networks.LeakyRNN(1, 4, 3, tau=0.05, dt=DT, key=getkey())
    model = popsim.NetworkModel(network, dt=DT)
    trial = popsim.Trial((), jnp.zeros((N_STEPS, 1)), (), popsim.Timeline(DT, N_STEPS))
    return at_random(popsim.simulate(model, trial, key=getkey()), getkey()), trial, model


TERMS = {
    "late": (losses.PositionError(), lambda s, t: LATE @ length(off(s, t)) ** 2),
    "all alike": (
        losses.PositionError(profile=losses.PowerProfile(0.0)),
        lambda s, t: np.sum(off(s, t) ** 2),
    ),
    "last step": (losses.PositionError(profile=losses.FinalStep()), lambda s, t: np.sum(off(s, t)[-1] ** 2)),
    "last steps": (
        losses.PositionError(profile=losses.FinalSteps(2 * DT)),
        lambda s, t: LAST_TWO @ length(off(s, t)) ** 2,
    ),
    "length": (losses.PositionError(distance=EuclideanDistance()), lambda s, t: LATE @ length(off(s, t))),
    "L1": (
        losses.PositionError(distance=L1Distance()),
        lambda s, t: LATE @ np.abs(off(s, t)).sum(axis=1),
    ),
    "near in Huber's": (
        losses.PositionError(distance=HuberDistance(10.0)),
        lambda s, t: LATE @ length(off(s, t)) ** 2 / 2,
    ),
    "near and far in Huber's": (
        losses.PositionError(distance=HuberDistance(1.5)),
        lambda s, t: LATE @ huber(off(s, t), 1.5),
    ),
    "velocity": (losses.VelocityError(), lambda s, t: LATE @ length(off(s, t, "velocity")) ** 2),
    "length of velocity": (
        losses.VelocityError(distance=EuclideanDistance(), profile=IN_EARLY),
        lambda s, t: EARLY @ length(off(s, t, "velocity")),
    ),
    "final velocity": (losses.FinalVelocity(), lambda s, t: length(off(s, t, "velocity"))[-1] ** 2),
    "final speed": (
        losses.FinalVelocity(distance=EuclideanDistance()),
        lambda s, t: length(off(s, t, "velocity"))[-1],
    ),
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
    "early acceleration": (
        losses.Acceleration(profile=IN_EARLY),
        lambda s, t: EARLY @ length(accelerations(s, t)) ** 2,
    ),
    "jerk": (losses.Jerk(), lambda s, t: np.sum(jerks(s, t) ** 2)),
    "late jerk": (losses.Jerk(profile=losses.PowerProfile()), lambda s, t: LATE @ length(jerks(s, t)) ** 2),
}

OF_ANY_MODEL = {
    "effort": (losses.Effort(), lambda s: np.sum(np.asarray(s.network.output) ** 2)),
    "early effort": (losses.Effort(profile=IN_EARLY), lambda s: EARLY @ length(s.network.output) ** 2),
    "effort change": (losses.EffortChange(), lambda s: np.sum(changes(s.network.output) ** 2)),
    "early effort change": (
        losses.EffortChange(profile=IN_EARLY),
        lambda s: EARLY[1:] @ length(changes(s.network.output)) ** 2,
    ),
    "activity": (losses.HiddenActivity(), lambda s: np.sum(np.asarray(s.network.hidden) ** 2)),
    "late activity": (
        losses.HiddenActivity(profile=losses.PowerProfile()),
        lambda s: LATE @ length(s.network.hidden) ** 2,
    ),
    "activity change": (losses.HiddenActivityChange(), lambda s: np.sum(changes(s.network.hidden) ** 2)),
    "late activity change": (
        losses.HiddenActivityChange(profile=losses.PowerProfile()),
        lambda s: LATE[1:] @ length(changes(s.network.hidden)) ** 2,
    ),
}

OF_MUSCLES = {
    "activation": (losses.MuscleActivation(), lambda s, f: np.sum(np.asarray(s.plant.activation) ** 2)),
    "early activation": (
        losses.MuscleActivation(profile=IN_EARLY),
        lambda s, f: EARLY @ length(s.plant.activation) ** 2,
    ),
    "force": (losses.MuscleForce(), lambda s, f: np.sum(f**2)),
    "late force": (losses.MuscleForce(profile=losses.PowerProfile()), lambda s, f: LATE @ length(f) ** 2),
    "force change": (losses.MuscleForceChange(), lambda s, f: np.sum(changes(f) ** 2)),
    "early force change": (
        losses.MuscleForceChange(profile=IN_EARLY),
        lambda s, f: EARLY[1:] @ length(changes(f)) ** 2,
    ),
}


def assert_agree(term, run, value, rtol):
    """The term, and the sum of the costs of its time steps unless it looks at several at once."""
    np.testing.assert_allclose(term(*run), value, rtol=rtol)
    costs = sum_of_costs(term, *run)
    assert (costs is None) == (term.name.endswith("change") or term.name in ("acceleration", "jerk"))
    if costs is not None:
        np.testing.assert_allclose(costs, value, rtol=rtol)


def assert_gradient_of_all(terms, states, trial, model, key, **tolerance):
    """Of the sum of terms, each in units of its value, by the states and by the terms' own numbers."""
    scales = [(1 + i) * float(term(states, trial, model)) for i, term in enumerate(terms)]

    def value(own):
        return sum(term(own[1], trial, model) / scale for term, scale in zip(own[0], scales, strict=True))

    assert_gradients_agree(value, (list(terms), states), key, **tolerance)


def test_terms_of_the_hand(run, getkey):
    states, trial, _ = run
    terms = [jax.tree.map(lambda leaf: leaf.astype(float), term) for term, _ in TERMS.values()]
    for term, (_, by_hand) in zip(terms, TERMS.values(), strict=True):
        rtol = 1e-6 if jax.tree.leaves(term) else 1e-12  # its own numbers are of single precision
        assert_agree(term, run, by_hand(states, trial), rtol=rtol)
    assert_gradient_of_all(terms, *run, getkey(), rtol=1e-5)


@pytest.mark.parametrize("has_body", [True, False])
def test_terms_of_the_network(run, bare_run, has_body, getkey):
    states, trial, model = run if has_body else bare_run
    for term, by_hand in OF_ANY_MODEL.values():
        assert_agree(term, (states, trial, model), by_hand(states), rtol=1e-12)
    assert_gradient_of_all([term for term, _ in OF_ANY_MODEL.values()], states, trial, model, getkey())


def test_terms_of_muscles(muscled_run, run, bare_run, getkey):
    states, _, model = muscled_run
    body = model.plant
    steps = [jax.tree.map(lambda leaf, t=t: leaf[t], states.plant) for t in range(N_STEPS)]
    forces = np.stack([body.muscles(step).force for step in steps])
    forces /= np.asarray(body.muscle.max_isometric_force)
    assert forces.max() > 0.05 and np.ptp(forces, axis=0).max() > 0.01
    for term, by_hand in OF_MUSCLES.values():
        assert_agree(term, muscled_run, by_hand(states, forces), rtol=1e-9)
        with pytest.raises(ValueError, match=f"muscles.*'{term.name}', got a PointMass"):
            term(*run)
        with pytest.raises(ValueError, match="got a NetworkModel without a body"):
            term(*bare_run)
    assert_gradient_of_all([term for term, _ in OF_MUSCLES.values()], *muscled_run, getkey(), rtol=1e-4)


def test_terms_of_the_hand_refuse_what_has_none(run, bare_run, as_users_run):
    states, trial, _ = run
    for term in (losses.Acceleration(), losses.Jerk(), losses.Straightness(), losses.Hold(IN_EARLY.window)):
        with pytest.raises(ValueError, match="`states`.*with a hand, got a NetworkModelState"):
            term(bare_run[0], trial, run[2])
        with pytest.raises(ValueError, match="`init` of a trial must be a HandState, got a tuple"):
            term(states, dataclasses.replace(trial, init=()), run[2])
    for term in (losses.VelocityError(), losses.FinalPosition(), losses.FinalState(), losses.Straightness()):
        with pytest.raises(ValueError, match="`targets` of a trial must be a HandState"):
            term(states, dataclasses.replace(trial, targets=trial.targets.position), run[2])


def test_where_a_term_is_singular_its_gradient_is_zero(run):
    """The cursor on the target, and a target at the start."""
    states, trial, model = run
    on_target = dataclasses.replace(states, cursor=trial.targets)
    stays = dataclasses.replace(trial, init=jax.tree.map(lambda leaf: leaf[-1], trial.targets))
    terms = [losses.Straightness(distance=EuclideanDistance()), losses.Straightness()]
    for distance in (EuclideanDistance(), L1Distance(), HuberDistance(1.0)):
        terms += [kind(distance=distance) for kind in (losses.PositionError, losses.VelocityError)]
        terms += [kind(distance=distance) for kind in (losses.FinalPosition, losses.FinalVelocity)]
    for term in terms:

        def value(states, term=term):
            return term(states, stays, model)

        at_target, gradient = eqx.filter_value_and_grad(value)(on_target)
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

    for term in terms:

        def value(states, step, term=term):
            timeline = dataclasses.replace(trial.timeline, events={"go cue": step})
            return term(states, dataclasses.replace(trial, timeline=timeline), model)

        values, gradients = jax.jit(jax.vmap(eqx.filter_value_and_grad(value), (None, 0)))(states, steps)
        assert values[0] > 0 and values[1] == 0, term
        for leaf in jax.tree.leaves(gradients):
            assert np.all(np.isfinite(leaf)) and np.all(leaf[1] == 0), term


def test_terms_have_names_of_their_own():
    own = [term for term, _ in [*TERMS.values(), *OF_ANY_MODEL.values(), *OF_MUSCLES.values()]]
    kinds = {type(term): term for term in own}
    assert len({term.name for term in kinds.values()}) == len(kinds) == 16


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


def test_profiles_and_distances_leave_time_alone(as_users_run, run):
    for term in (losses.PositionError, losses.Effort, losses.HiddenActivity):
        with pytest.raises(ValueError, match=r"`profile`.*TwoAxes"):
            term(profile=TwoAxes())(*run)
    with pytest.raises(ValueError, match=r"`distance`.*KeptAxis"):
        losses.PositionError(distance=KeptAxis())(*run)


def test_targets_and_starts_are_never_spread_over_coordinates(as_users_run, run):
    states, trial, model = run
    terms = (losses.PositionError, losses.VelocityError, losses.FinalPosition, losses.FinalVelocity)
    for field in ("position", "velocity"):
        narrow = eqx.tree_at(lambda t: getattr(t.targets, field), trial, getattr(trial.targets, field)[:, :1])  # noqa: B023
        for term in (*terms, losses.FinalState, losses.Straightness):
            with pytest.raises(ValueError, match=rf"`targets.{field}`.*\({N_STEPS}, 2\).*\({N_STEPS}, 1\)"):
                term()(states, narrow, model)
    narrow = eqx.tree_at(lambda t: t.init.position, trial, trial.init.position[:1])
    with pytest.raises(ValueError, match=r"`init.position`.*\(2,\).*\(1,\)"):
        losses.Straightness()(states, narrow, model)

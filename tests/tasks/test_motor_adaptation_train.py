"""Small networks adapt to a force field and to a turned cursor, and show what they have learned."""

import equinox as eqx
import jax
import numpy as np
import pytest
from motor_training import DT, WORKSPACE, build_loop

import popsim
from popsim.tasks import CenterOutReaches, WithInterventions, adaptation_plan, channel_trials
from popsim.training import TaskTrainer, adam

pytestmark = pytest.mark.slow

REACHES = CenterOutReaches(WORKSPACE, duration=0.8, dt=DT)
PHASES = (("baseline", 100, 0.0), ("field", 100, 1.0))
FIELD, ANGLE = 8.0, np.pi / 6  # N s/m, rad


def adapt(plans, interventions):
    """Two members after each phase of a protocol, and the mean loss of each batch and member."""
    n_batches = sum(n for _, n, _ in PHASES)
    trained, history = TaskTrainer(adam(1e-2, clip_norm=1.0))(
        WithInterventions(REACHES, plans),
        popsim.make_ensemble(build_loop(REACHES, interventions), 2, key=jax.random.key(0)),
        n_batches,
        32,
        lambda model: model.network,
        ensembled=True,
        log_step=n_batches,
        save_model_trainables=np.array([PHASES[0][1] - 1, n_batches - 1]),
        disable_tqdm=True,
        key=jax.random.key(1),
    )
    rows = [jax.tree.map(lambda leaf, row=row: leaf[row], history.model_trainables) for row in (0, 1)]
    losses = np.asarray(sum(term for term in history.loss.terms.values()))
    return [eqx.combine(row, trained) for row in rows], losses


def reaches(ensemble, plans):
    """The states of the eight reaches: those without an intervention, then those under each plan."""
    task = WithInterventions(REACHES, plans)
    states = popsim.evaluate_ensemble(ensemble, task, key=jax.random.key(2)).states
    parts = [slice(8 * index, 8 * index + 8) for index in range(len(plans) + 1)]
    return [jax.tree.map(lambda leaf, part=part: np.asarray(leaf[:, part]), states) for part in parts]


def along_and_left(vectors):
    """The parts of vectors (member, trial, time, space) along the way to the target and to its left."""
    angles = 2 * np.pi * np.arange(8) / 8
    along = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    left = np.stack([-along[:, 1], along[:, 0]], axis=1)
    return [np.einsum("mtsx,tx->mts", vectors, axis) for axis in (along, left)]


def deviation(states):
    """How far to the left of the straight way the cursor comes at most, in m, of each member."""
    left = along_and_left(states.cursor.position)[1]
    furthest = np.abs(left).argmax(axis=-1)[..., None]
    return np.take_along_axis(left, furthest, axis=-1)[..., 0].mean(axis=1)


def launch(states):
    """In which direction from that of the target the hand sets off in the first 0.2 s, in rad."""
    along, left = (part[..., 9] for part in along_and_left(states.cursor.position))
    return np.arctan2(left, along).mean(axis=1)


def force_for_speed(states):
    """How much the hand pushes to the left against the walls of a channel, in N s/m of its speed."""
    speed, push = along_and_left(states.hand.velocity)[0], along_and_left(-states.external_force)[1]
    return np.sum(push * speed, axis=(1, 2)) / np.sum(speed**2, axis=(1, 2))


def assert_rises_and_falls(losses):
    """The loss of each batch at the onset of what is to be learned, and after adaptation to it."""
    baseline, onset, adapted = (losses[part].mean(axis=0) for part in (slice(90, 100), 100, slice(190, 200)))
    assert np.all(onset > 5 * baseline), (baseline, onset)
    assert np.all(adapted < 0.2 * onset), (onset, adapted)


@pytest.mark.full  # in short: test_a_turned_cursor_is_learned_and_leaves_an_after_effect
def test_a_field_is_learned_and_leaves_an_after_effect_and_a_force_against_the_channel():
    """The field pushes to the right: 4 cm at first, and the network comes to push to the left."""
    field = adaptation_plan("curl field", FIELD, PHASES, unless=("force channel",))
    plans = [channel_trials(0.1), field]
    (before, after), losses = adapt(
        plans, (popsim.interventions.CurlField(), popsim.interventions.ForceChannel())
    )
    assert_rises_and_falls(losses)
    baseline, unpushed, naive = reaches(before, plans)
    after_effect, pushed, adapted = reaches(after, plans)
    assert np.all(np.abs(deviation(baseline)) < 0.005)
    assert np.all(deviation(naive) < -0.03)
    assert np.all(np.abs(deviation(adapted)) < 0.5 * np.abs(deviation(naive)))
    assert np.all(deviation(after_effect) > 0.02)
    assert np.all(np.abs(force_for_speed(unpushed)) < 0.5)
    pushes = force_for_speed(pushed)
    assert np.all((pushes > 0.5 * FIELD) & (pushes < 1.1 * FIELD)), pushes


@pytest.mark.full
def test_a_turned_cursor_is_learned_and_leaves_an_after_effect():
    """It goes to the left at first, by its angle; without it, the hand then sets off to the right."""
    plans = [adaptation_plan("cursor rotation", ANGLE, PHASES)]
    (before, after), losses = adapt(plans, (popsim.interventions.CursorRotation(),))
    assert_rises_and_falls(losses)
    _, naive = reaches(before, plans)
    after_effect, adapted = reaches(after, plans)
    np.testing.assert_allclose(launch(naive), ANGLE, atol=0.15)
    assert np.all(np.abs(deviation(adapted)) < 0.5 * np.abs(deviation(naive)))
    assert np.all(launch(after_effect) < -0.3 * ANGLE)

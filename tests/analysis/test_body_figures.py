"""Bodies in trials: what is drawn of them, and movies."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.animation import FFMpegWriter, FuncAnimation
from matplotlib.quiver import Quiver
from PIL import Image

import popsim
from popsim import muscles, plants
from popsim.analysis import figures
from popsim.analysis.figures.movies import is_movie
from popsim.store import SaveError

TINY = {"figsize": (1.2, 1.0), "dpi": 40}


@dataclasses.dataclass
class Model:
    """What has a body."""

    plant: popsim.plants.AbstractPlant


@eqx.filter_jit
def idle_states(plant, trial):
    """The states of a body at rest with the hand at each target position in turn, and no network."""
    idle = popsim.networks.NetworkState(jnp.zeros(1), jnp.zeros(plant.n_commands))

    def at_rest(position):
        return popsim.states.LoopState.at_rest(*popsim.plants.base.evaluate_rest(plant, position), idle)

    return jax.vmap(at_rest)(trial.targets.position)


def wave(n_steps=20, *, dt=0.01, **parts):
    """An arm that waves, with the given further parts of a motion."""
    angle = np.linspace(0.3, 1.2, n_steps)
    upper = 0.3 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    hand = upper + 0.25 * np.stack([np.cos(2 * angle), np.sin(2 * angle)], axis=1)
    return figures.BodyMotion(dt, np.stack([0 * upper, upper, hand], axis=1), **parts)


def one_reach(plant, n_steps=4):
    """The first reach of a task around the middle of the workspace, and states at its target."""
    task = popsim.tasks.CenterOutReaches(plant.workspace, duration=0.01 * n_steps)
    trial = jax.tree.map(lambda leaf: leaf[0], task.validation_trials())
    return trial, idle_states(plant, trial)


@pytest.fixture
def axes():
    figure, axes = plt.subplots(1, 2, **TINY)
    yield axes
    plt.close(figure)


def test_the_motion_of_an_arm_has_its_schematic_muscles_beside_the_bones():
    plant = plants.arm26(muscles.ReluMuscle)
    trial, states = one_reach(plant)
    motion = figures.body_motion(states, trial, Model(plant))
    np.testing.assert_allclose(motion.hand, trial.targets.position, atol=1e-5)
    assert motion.skeleton.shape == (4, 3, 2) and motion.activation.shape == (4, 6)
    assert motion.cursor is None and motion.force is None and motion.shown_targets == ()
    assert motion.epochs == ("movement",) * 4
    shoulder, elbow, hand = motion.skeleton[0]
    flexor, extensor = motion.muscles[2][0], motion.muscles[3][0]  # of the elbow, which bends to the left

    def left_of_forearm(point):
        along = hand - elbow
        return along[0] * (point - elbow)[1] - along[1] * (point - elbow)[0]

    assert left_of_forearm(flexor[-1]) > 0 > left_of_forearm(extensor[-1])
    arms = plant.muscles(jax.tree.map(lambda leaf: leaf[0], states.plant)).moment_arms
    distances = [np.linalg.norm(line[1] - elbow) for line in (flexor, extensor)]
    np.testing.assert_allclose(distances, np.abs(arms[2:4, 1]), rtol=1e-4)
    pectoralis, biceps = motion.muscles[0][0], motion.muscles[4][0]
    assert np.linalg.norm(biceps[1] - shoulder) > np.linalg.norm(pectoralis[1] - shoulder)
    assert len(biceps) == 5 and pectoralis[0, 0] < shoulder[0]


def test_a_body_by_itself_moves_as_in_a_trial():
    plant = plants.muscled_point_mass()
    trial, states = one_reach(plant)
    motion, alone = (
        figures.body_motion(states, trial, Model(plant)),
        figures.plant_motion(plant, states.plant, dt=0.01),
    )
    for name in ("skeleton", "activation", "muscles"):
        np.testing.assert_array_equal(getattr(motion, name), getattr(alone, name))
    assert alone.target is None and alone.n_steps == 4


def test_cursor_force_and_shown_targets_are_there_if_they_differ():
    plant = plants.PointMass()
    trial, states = one_reach(plant)
    away = dataclasses.replace(states.cursor, position=states.cursor.position + 0.01)
    states = dataclasses.replace(states, cursor=away, external_force=jnp.ones((4, 2)))
    later = {"target": trial.inputs["target"] + 0.1, "go cue": jnp.ones((4, 1))}
    motion = figures.body_motion(states, dataclasses.replace(trial, inputs=later), Model(plant))
    np.testing.assert_allclose(motion.cursor - motion.hand, 0.01, atol=1e-6)
    np.testing.assert_allclose(motion.shown_targets[0] - motion.target, 0.1, atol=1e-6)
    assert motion.skeleton.shape == (4, 1, 2) and motion.activation is None and np.all(motion.force == 1)


def test_a_body_is_drawn_at_its_step(ax):
    force = np.tile([3.0, 4.0], (20, 1))
    motion = wave(
        force=force, target=np.full((20, 2), 0.2), activation=np.linspace(0, 0.4, 40).reshape(20, 2)
    )
    assert figures.draw_body(ax, motion, 4, trail=0.03) is ax
    bones, path = ax.lines[1], ax.lines[3]
    np.testing.assert_allclose(bones.get_xydata(), 100 * motion.skeleton[4])
    np.testing.assert_allclose(path.get_xydata(), 100 * motion.hand[2:5])
    (arrow,) = (each for each in ax.collections if isinstance(each, Quiver))
    assert (arrow.U[0], arrow.V[0]) == (3, 4) and ax.get_aspect() == 1
    np.testing.assert_allclose(arrow.get_offsets(), 100 * motion.hand[4:5])
    np.testing.assert_allclose(ax.collections[0].get_array(), motion.activation[4])
    assert ax.collections[0].get_clim() == (0, pytest.approx(0.4))
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    for places in (100 * motion.skeleton.reshape(-1, 2), [[20, 20]]):
        assert np.all(low < places) and np.all(places < high)
    with pytest.raises(IndexError):
        figures.draw_body(ax, motion, 20)


@pytest.mark.parametrize(
    ("playback", "expected"),
    [
        (figures.Playback(), [3, 7, 11, 15, 19]),
        (figures.Playback(frames_per_second=10), [9, 19]),
        (figures.Playback(speed=0.5, frames_per_second=25), [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]),
        (figures.Playback(speed=100), [19]),
    ],
)
def test_a_movie_plays_in_real_time_or_as_fast_as_asked(playback, expected):
    assert playback.steps(20, 0.01) == expected


def test_movies_have_every_frame_and_the_rate_and_hold_still(axes, tmp_path, as_users_run):
    trials = [[wave(epochs=("reach",) * 20), wave(10)], [wave(epochs=("reach",) * 20), wave(10)]]
    animation = figures.animate_body(
        axes, trials, titles=["one", "two"], playback=figures.Playback(0.5, 20.0)
    )
    view = axes[0].get_xlim(), axes[0].get_ylim()
    n_frames = 8 + 4
    path = figures.save_animation(animation, tmp_path / "arm.gif")
    durations = []
    with Image.open(path) as film:
        assert film.n_frames == n_frames and film.size == (48, 40)
        for frame in range(n_frames):
            film.seek(frame)
            durations.append(film.info["duration"])
    assert durations == [50] * n_frames
    figures.save_animation(animation, tmp_path / "arm.gif", frames_per_second=30)
    with Image.open(path) as film:
        durations = [film.seek(frame) or film.info["duration"] for frame in range(film.n_frames)]
    assert set(durations) == {30, 40} and sum(durations) == 400

    page = figures.save_animation(animation, tmp_path / "arm <b>.html").read_text()
    assert (
        page.count("iVBORw0KGgo") == n_frames
        and "const interval = 50;" in page
        and f'max="{n_frames - 1}"' in page
    )
    assert "default-src 'none'" in page and "<b>" not in page and "//" not in page.split("<script>")[0]
    assert all(is_movie(each) for each in tmp_path.iterdir())
    assert axes[0].get_title() == "one" and (axes[1].get_xlim(), axes[1].get_ylim()) == view
    assert axes[0].texts[0].get_text() == "0.10 s, 0.5 × real time"


def test_what_cannot_be_a_movie_is_refused(axes, tmp_path, monkeypatch, as_users_run):
    animation = figures.animate_body(axes, [[wave()], [wave()]])
    empty = FuncAnimation(axes[0].figure, lambda frame: [], 0, init_func=lambda: [])
    monkeypatch.setattr(FFMpegWriter, "isAvailable", lambda: False)
    for named, call in (
        ("arm.avi", lambda: figures.save_animation(animation, tmp_path / "arm.avi")),
        ("at most 50", lambda: figures.save_animation(animation, tmp_path / "arm.gif", frames_per_second=60)),
        ("install ffmpeg", lambda: figures.save_animation(animation, tmp_path / "arm.mp4")),
        ("no frames", lambda: figures.save_animation(empty, tmp_path / "arm.gif")),
        ("`motions`", lambda: figures.animate_body(axes, [[wave()]])),
        ("same .steps, dt.", lambda: figures.animate_body(axes, [[wave()], [wave(10)]])),
        ("`speed`", lambda: figures.Playback(speed=0.0)),
    ):
        with pytest.raises((ValueError, SaveError), match=named):
            call()
    assert not [*tmp_path.iterdir()]
    figures.save_animation(animation, tmp_path / "arm.gif")

"""Figures of bodies: segments, muscles, the path of the hand, targets, cursor and force."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize

from popsim._checks import check_positive
from popsim._compiled import jit
from popsim.analysis.figures._schematic_muscles import schematic_muscles
from popsim.analysis.figures.style import extend_limits
from popsim.hand import HandState
from popsim.muscles.paths import moment_arms
from popsim.network_input import inputs_by_name
from popsim.plants import AbstractPlant, MusculoskeletalPlant
from popsim.states import LoopState
from popsim.trial import Trial

__all__ = ["BodyMotion", "body_motion", "draw_body", "plant_motion"]

InPlane = Float[np.ndarray, "time 2"]
APART = 1e-4  # m; a cursor that is nearer to the hand is not drawn


@dataclasses.dataclass(frozen=True)
class BodyMotion:
    """What a body does, such as in one trial, in the plane, for figures. Row t is at time (t + 1) dt.

    - `dt`: the time step, in s.
    - `skeleton`: the points of the body, in m, see `AbstractPlant.skeleton_points`; the last is the hand.
    - `muscles`: the points of each muscle, in m; empty if they are not known.
    - `activation`: of each muscle, from 0 to 1; None for a body without muscles.
    - `target`: where the hand should be, in m; None for tasks without such a place.
    - `shown_targets`: where the inputs of the network that are called "target…" show one, in m, if it is not
        always `target`.
    - `cursor`: in m; None if it is always at the hand.
    - `force`: the external force on the hand at the start of the step, in N; None if it is always zero.
    - `epochs`: the name of the epoch, empty for none.
    """

    dt: float
    skeleton: Float[np.ndarray, "time point 2"]
    muscles: tuple[Float[np.ndarray, "time _ 2"], ...] = ()
    activation: Float[np.ndarray, "time muscle"] | None = None
    target: InPlane | None = None
    shown_targets: tuple[InPlane, ...] = ()
    cursor: InPlane | None = None
    force: InPlane | None = None
    epochs: tuple[str, ...] = ()

    @property
    def n_steps(self) -> int:
        """The number of time steps."""
        return len(self.skeleton)

    @property
    def hand(self) -> InPlane:
        """The position of the hand, in m."""
        return self.skeleton[:, -1]


def body_motion(states: LoopState, trial: Trial, model: Any) -> BodyMotion:
    """Return what a body does in one trial, for `draw_body` and `animate_body`.

    See `plant_motion` for how muscles are drawn.

    **Arguments:**

    - `states`: the recorded states of one trial of one member, with the axes (time, ...).
    - `trial`: the trial.
    - `model`: the model of the member, with a `plant`.
    """
    motion = plant_motion(model.plant, states.plant, dt=trial.timeline.dt)
    cursor, force = _in_plane(states.cursor.position), _in_plane(states.external_force)
    target = _in_plane(trial.targets.position) if isinstance(trial.targets, HandState) else None
    return dataclasses.replace(
        motion,
        target=target,
        shown_targets=_shown_targets(trial, states.hand.position.shape, target),
        cursor=cursor if np.abs(cursor - motion.hand).max() > APART else None,
        force=force if np.any(force) else None,
        epochs=_epoch_names(trial),
    )


def plant_motion(plant: AbstractPlant, states: PyTree[Array], *, dt: float) -> BodyMotion:
    """Return what a body does by itself, such as in `simulate_plant`, for `draw_body` and `animate_body`.

    Muscles whose path has points, see `AbstractMusclePath.world_points`, are where these are. Those of which
    only moment arms are known, as of `arm26`, get a schematic line beside their segments: it passes each
    joint on the side to which the muscle pulls, at the distance of its moment arm, and begins and ends at an
    invented place. The muscles of other bodies are drawn as a row of bars.

    A body in space is projected on the plane of x and y.

    **Arguments:**

    - `plant`: the body.
    - `states`: its states, with the axes (time, ...), such as the `state` of a `PlantTrajectory`.
    - `dt`: the time step, in s.
    """
    at_rest = jax.eval_shape(lambda: plant.rest_state(plant.workspace.center))
    shapes = [each.shape for each in jax.tree.leaves(at_rest)]
    given = [np.shape(each) for each in jax.tree.leaves(states)]
    if [shape[1:] for shape in given] != shapes or len({shape[:1] for shape in given}) != 1:
        raise ValueError(
            f"`states` must be those of one {type(plant).__name__} over time, arrays of shapes "
            f"{[('time', *shape) for shape in shapes]}, got {given}: of an ensemble in several trials, "
            "jax.tree.map(lambda leaf: leaf[member, trial], states)."
        )
    points = jax.tree.map(np.asarray, _points_over_time(plant, states))
    skeleton = _in_plane(points.skeleton)
    muscles, activation = (), None
    if points.moment_arms is not None:
        activation = np.asarray(states.activation, float)
        if points.muscles is not None:
            muscles = tuple(_in_plane(line) for line in points.muscles)
        elif skeleton.shape[1] == points.moment_arms.shape[-1] + 1:
            muscles = schematic_muscles(skeleton, points.moment_arms)
    return BodyMotion(dt, skeleton, muscles, activation)


class _Points(NamedTuple):
    skeleton: Any
    muscles: Any
    moment_arms: Any


@jit
def _points_over_time(plant: AbstractPlant, states: Any) -> _Points:
    def at_one_time(state: Any) -> _Points:
        skeleton = plant.skeleton_points(state)
        if not isinstance(plant, MusculoskeletalPlant):
            return _Points(skeleton, None, None)
        arms = moment_arms(plant.path, plant.coordinates(state)[0])
        return _Points(skeleton, plant.muscle_points(state), arms)

    return jax.vmap(at_one_time)(states)


def _in_plane(positions: Any) -> Float[np.ndarray, "... 2"]:
    """Return the x and y of positions in one, two or three dimensions."""
    values = np.asarray(positions, float)[..., :2]
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, 2 - values.shape[-1])])


def _shown_targets(trial: Trial, shape: tuple[int, ...], target: InPlane | None) -> tuple[InPlane, ...]:
    inputs = inputs_by_name(trial.inputs)
    places = [value for name, value in inputs.items() if name.startswith("target")]
    shown = [_in_plane(value) for value in places if np.shape(value) == shape]
    return tuple(place for place in shown if target is None or not np.array_equal(place, target))


def _epoch_names(trial: Trial) -> tuple[str, ...]:
    names = [""] * trial.timeline.n_steps
    for name, bounds in trial.timeline.epochs.items():
        first, end = np.asarray(bounds).tolist()
        for step in range(max(first, 0), min(end, len(names))):
            names[step] = name
    return tuple(names)


BONE, JOINT, PATH, TARGET, CURSOR, FORCE = "#C9C9C9", "#555555", "#0072B2", "#009E73", "#CC79A7", "#000000"
ACTIVATION_COLORS = LinearSegmentedColormap.from_list(
    "activation", ["#E9DCD3", "#F2A65A", "#D55E00", "#7A1200"]
)
NARROWEST, MARGIN = 0.6, 0.06  # of the longer side of the view: the shorter side, and what is around all
HEADROOM = 0.12  # of the height: where the time and the key of the force are written
FORCE_LENGTH = 0.22  # of the width of the view: the arrow of the largest force
TARGET_SIZE, SHOWN_SIZE, HAND_SIZE = 9.0, 11.0, 5.0  # points


@dataclasses.dataclass(frozen=True)
class BodyScale:
    """What several drawings of bodies have in common, so that they can be compared."""

    low: Float[np.ndarray, "2"]  # corners of the view, in cm
    high: Float[np.ndarray, "2"]
    activation: float  # with the darkest colour
    force: float  # with the longest arrow, in N; zero for none
    has_cursor: bool
    n_shown_targets: int

    @classmethod
    def of(cls, motions: Sequence[BodyMotion]) -> "BodyScale":
        """Return the scale on which everything in `motions` can be seen."""
        places = []
        for motion in motions:
            places += [motion.skeleton, *motion.shown_targets]
            places += [each for each in (motion.target, motion.cursor) if each is not None]
            # Muscles of a body without segments come from afar, and may begin outside of the view.
            places += [*motion.muscles] if motion.skeleton.shape[1] > 1 else []
        corners = 100 * np.concatenate([place.reshape(-1, 2) for place in places])
        corners = corners[np.isfinite(corners).all(axis=1)]
        if not len(corners):
            raise ValueError("`motions` must have positions that are finite, got none.")
        activations = [motion.activation for motion in motions if motion.activation is not None]
        forces = [np.linalg.norm(motion.force, axis=1) for motion in motions if motion.force is not None]
        middle = (corners.max(axis=0) + corners.min(axis=0)) / 2
        width = corners.max(axis=0) - corners.min(axis=0)
        half = np.maximum(width, NARROWEST * width.max()) / 2 + max(MARGIN * float(width.max()), 0.5)
        headroom = np.array([0.0, HEADROOM * 2 * half[1]])
        return cls(
            low=middle - half,
            high=middle + half + headroom,
            activation=_largest(activations, 1e-3),
            force=_largest(forces, 0.0),
            has_cursor=any(motion.cursor is not None for motion in motions),
            n_shown_targets=max(len(motion.shown_targets) for motion in motions),
        )

    @property
    def muscle_colors(self) -> ScalarMappable:
        """The colours of activations."""
        return ScalarMappable(Normalize(0.0, self.activation), ACTIVATION_COLORS)


def _largest(values: Sequence[Float[np.ndarray, "..."]], least: float) -> float:
    """Return the largest of all numbers that are not NaN, and at least `least`."""
    numbers = np.concatenate([np.ravel(each) for each in values]) if values else np.empty(0)
    return float(np.max(numbers, initial=least, where=np.isfinite(numbers)))


def draw_body(ax: Axes, motion: BodyMotion, step: int = -1, *, trail: float = 2.0) -> Axes:
    """Draw a body at one time: segments, muscles by activation, the path of the hand, target and force.

    The cursor is drawn if it is not always at the hand. Targets that the network is shown are circles, the
    place where the hand should be is a disc.

    **Arguments:**

    - `ax`: axes to draw into; for muscles a colour bar is added beside them.
    - `motion`: see `body_motion` and `plant_motion`.
    - `step`: the time step; by default the last.
    - `trail`: how much of the path of the hand is drawn, in s.
    """
    check_positive("trail", trail)
    if not -motion.n_steps <= step < motion.n_steps:
        raise ValueError(f"`step` must be one of the {motion.n_steps} steps of the trial, got {step}.")
    scale = BodyScale.of([motion])
    BodyArtists(ax, motion, scale, trail=trail).show(motion, range(motion.n_steps)[step])
    if motion.activation is not None:
        ax.figure.colorbar(scale.muscle_colors, ax=ax, label="activation")
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, handlelength=1.2)
    return ax


class BodyArtists:
    """The drawing of a body in axes, which can show any step of any motion with the parts of the first."""

    def __init__(self, ax: Axes, motion: BodyMotion, scale: BodyScale, *, trail: float):
        self.trail = trail
        self.circles = [
            _marker(ax, "o", TARGET, SHOWN_SIZE, f"shown target{'s' if index else ''}", filled=False)
            for index in range(scale.n_shown_targets)
        ]
        self.target = None if motion.target is None else _marker(ax, "o", TARGET, TARGET_SIZE, "target")
        self.muscles = _muscle_lines(ax, motion, scale)
        (self.bones,) = ax.plot([], [], color=BONE, linewidth=5, solid_capstyle="round", zorder=2)
        (self.joints,) = ax.plot([], [], "o", color="white", mec=JOINT, mew=1.0, markersize=4.5, zorder=4)
        (self.path,) = ax.plot([], [], color=PATH, linewidth=1.3, label="path of the hand", zorder=5)
        self.hand = _marker(ax, "o", PATH, HAND_SIZE, "hand")
        self.cursor = _marker(ax, "X", CURSOR, 6.0, "cursor") if scale.has_cursor else None
        self.arrow = None if scale.force == 0 else _force_arrow(ax, scale)
        ax.set(xlabel="x (cm)", ylabel="y (cm)", aspect="equal")
        ax.update_datalim([tuple(scale.low), tuple(scale.high)])
        extend_limits(ax, x=(scale.low[0], scale.high[0]), y=(scale.low[1], scale.high[1]))

    @property
    def artists(self) -> list[Artist]:
        """What moves."""
        parts = (self.target, self.muscles, self.cursor, self.arrow)
        there = [part for part in parts if part is not None]
        return [*self.circles, self.bones, self.joints, self.path, self.hand, *there]

    def show(self, motion: BodyMotion, step: int) -> None:
        """Show a step of a motion."""
        points = 100 * motion.skeleton[step]
        begin = max(0, step + 1 - max(1, round(self.trail / motion.dt)))
        self.bones.set_data(*points.T)
        self.joints.set_data(*points[:-1].T)
        self.hand.set_data(*points[-1:].T)
        self.path.set_data(*(100 * motion.hand[begin : step + 1]).T)
        for index, circle in enumerate(self.circles):
            is_shown = index < len(motion.shown_targets)
            places = motion.shown_targets[index][step : step + 1] if is_shown else np.empty((0, 2))
            circle.set_data(*(100 * places).T)
        if self.target is not None and motion.target is not None:
            self.target.set_data(*(100 * motion.target[step : step + 1]).T)
        if self.cursor is not None:
            cursor = motion.hand if motion.cursor is None else motion.cursor
            self.cursor.set_data(*(100 * cursor[step : step + 1]).T)
        if self.muscles is not None and motion.activation is not None:
            if motion.muscles:
                self.muscles.set_segments([100 * line[step] for line in motion.muscles])
            self.muscles.set_array(motion.activation[step])
        if self.arrow is not None:
            force = np.zeros(2) if motion.force is None else motion.force[step]
            self.arrow.set_offsets(points[-1:])
            self.arrow.set_UVC(*np.atleast_2d(force).T)


def _marker(ax: Axes, marker: str, color: str, size: float, label: str, *, filled: bool = True) -> Any:
    style = {"mec": color, "mfc": color if filled else "none", "mew": 1.2, "markersize": size}
    order = 1 if label.endswith(("target", "targets")) else 6
    (line,) = ax.plot([], [], marker, color=color, label=label, zorder=order, **style)
    return line


def _muscle_lines(ax: Axes, motion: BodyMotion, scale: BodyScale) -> LineCollection | None:
    if motion.activation is None:
        return None
    n_muscles = motion.activation.shape[1]
    colors: Any = {"cmap": scale.muscle_colors.cmap, "norm": scale.muscle_colors.norm}
    if motion.muscles:
        lines = LineCollection([], linewidths=3.0, zorder=3, capstyle="round", joinstyle="round", **colors)
    else:
        places = 0.04 + 0.035 * np.arange(n_muscles)
        bars = [[(place, 0.03), (place, 0.1)] for place in places]
        lines = LineCollection(bars, linewidths=5.0, transform=ax.transAxes, zorder=3, **colors)
    ax.add_collection(lines, autolim=False)
    return lines


def _force_arrow(ax: Axes, scale: BodyScale) -> Any:
    length = FORCE_LENGTH * float((scale.high - scale.low).max())
    look: Any = {"angles": "xy", "scale_units": "xy", "units": "inches", "width": 0.02, "minlength": 0.0}
    arrow = ax.quiver(*np.zeros((4, 1)), scale=scale.force / length, color=FORCE, zorder=7, **look)
    tip = 0.04 + length / float(scale.high[0] - scale.low[0])
    ax.quiverkey(arrow, tip, 0.96, scale.force, f"{scale.force:.2g} N", labelpos="E", coordinates="axes")
    return arrow

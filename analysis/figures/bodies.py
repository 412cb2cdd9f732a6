"""Figures and movies of bodies."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.animation import FuncAnimation
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize

from popsim._shared.checks import check_positive
from popsim.analysis.figures.motions import BodyMotion
from popsim.analysis.figures.style import extend_limits

__all__ = ["draw_body", "Playback", "animate_body"]

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
    """The view, the colours and the length of forces that drawings of bodies share, to be compared."""

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
            places += [place for place in (motion.target, motion.cursor) if place is not None]
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
    numbers = np.concatenate([np.ravel(array) for array in values]) if values else np.empty(0)
    return float(np.max(numbers, initial=least, where=np.isfinite(numbers)))


def draw_body(ax: Axes, motion: BodyMotion, step: int = -1, *, trail: float = 2.0) -> Axes:
    """Draw a body at one time: segments, muscles by activation, the path of the hand, target and force.

    Targets that the network is shown are circles, the place where the hand should be is a disc.

    **Arguments:**

    - `motion`: see `body_motion` and `plant_motion`.
    - `trail`: how much of the path of the hand is drawn, in s.
    """
    scale = BodyScale.of([motion])
    BodyArtists(ax, motion, scale, trail=trail).show(motion, range(motion.n_steps)[step])
    if motion.activation is not None:
        ax.figure.colorbar(scale.muscle_colors, ax=ax, label="activation")
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, handlelength=1.2)
    return ax


class BodyArtists:
    """The drawing of a body in axes: it shows any step of any motion that has the parts of the first one."""

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
        """The artists that change from frame to frame."""
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


@dataclasses.dataclass(frozen=True)
class Playback:
    """How a movie is played.

    **Arguments:**

    - `speed`: seconds of the trial per second of the movie: 1 is real time, 0.25 slow motion.
    - `trail`: how much of the path of the hand is drawn, in seconds of the trial.
    """

    speed: float = 1.0
    frames_per_second: float = 25.0
    trail: float = 2.0

    def __post_init__(self):
        for field in dataclasses.fields(self):
            check_positive(field.name, getattr(self, field.name))

    def steps(self, n_steps: int, dt: float) -> list[int]:
        """Return the step that each frame shows of a trial of `n_steps` steps of `dt` seconds."""
        n_frames = max(1, round(n_steps * dt / self.speed * self.frames_per_second))
        times = self.speed * np.arange(1, n_frames + 1) / self.frames_per_second
        return np.clip(np.round(times / dt).astype(int) - 1, 0, n_steps - 1).tolist()


def animate_body(
    axes: Sequence[Axes] | np.ndarray,
    motions: Sequence[Sequence[BodyMotion]],
    *,
    titles: Sequence[str] = (),
    playback: Playback | None = None,
) -> FuncAnimation:
    """Animate `draw_body`: bodies side by side, such as of several members or stages of training.

    All have the same view, colours of muscles and length of force.

    **Arguments:**

    - `axes`: axes to draw into, all of one figure; for muscles one colour bar is added beside them.
    - `motions`: for each axes the trials played one after another, with equal numbers of steps in all axes.
    - `playback`: the speed; by default real time, at 25 frames per second.

    **Returns:** the animation; keep a reference until it is shown or saved, see `save_animation`.
    """
    panels, playback = list(np.ravel(np.asarray(axes, object))), playback or Playback()
    _check_motions(len(panels), motions)
    if titles and len(titles) != len(panels):
        raise ValueError(f"`titles` must be one for each of {len(panels)} axes, got {len(titles)}.")
    scale = BodyScale.of([motion for trials in motions for motion in trials])
    drawings = [
        BodyArtists(ax, trials[0], scale, trail=playback.trail)
        for ax, trials in zip(panels, motions, strict=True)
    ]
    for ax, title in zip(panels, titles, strict=False):
        ax.set_title(title)
    for ax in panels:
        if len(ax.get_shared_y_axes().get_siblings(ax)) > 1:
            ax.label_outer()
    clocks = [
        ax.text(0.97, 0.97, "", transform=ax.transAxes, ha="right", va="top", fontsize=7, zorder=8)
        for ax in panels
    ]
    _add_keys(panels, motions[0][0], scale)
    frames = [
        (index, step)
        for index, motion in enumerate(motions[0])
        for step in playback.steps(motion.n_steps, motion.dt)
    ]
    moving = [*clocks, *(artist for drawing in drawings for artist in drawing.artists)]

    def show(frame: tuple[int, int]) -> list[Any]:
        index, step = frame
        for drawing, clock, trials in zip(drawings, clocks, motions, strict=True):
            drawing.show(trials[index], step)
            clock.set_text(_clock_text(trials[index], step, playback.speed))
        return moving

    show(frames[-1])
    figure: Any = panels[0].get_figure()
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
    interval: Any = 1000 / playback.frames_per_second
    return FuncAnimation(figure, show, frames=frames, interval=interval, blit=True, cache_frame_data=False)


def _check_motions(n_panels: int, motions: Sequence[Sequence[BodyMotion]]) -> None:
    if n_panels == 0 or len(motions) != n_panels or not all(len(trials) for trials in motions):
        raise ValueError(
            f"`motions` must be one trial or more for each of {n_panels} axes, "
            f"got {[len(trials) for trials in motions]}."
        )
    lengths = [[(motion.n_steps, motion.dt) for motion in trials] for trials in motions]
    if any(trials != lengths[0] for trials in lengths):
        raise ValueError(f"`motions` must have trials of the same (steps, dt) in all axes, got {lengths}.")
    for trials in motions:
        if any(_parts(motion) != _parts(trials[0]) for motion in trials):
            raise ValueError("`motions` of one axes must be of one body in one task.")


def _parts(motion: BodyMotion) -> tuple[Any, ...]:
    n_muscles = None if motion.activation is None else motion.activation.shape[1]
    return motion.skeleton.shape[1], n_muscles, len(motion.muscles), motion.target is None


def _add_keys(panels: list[Axes], motion: BodyMotion, scale: BodyScale) -> None:
    figure: Any = panels[0].get_figure()
    if motion.activation is not None:
        figure.colorbar(scale.muscle_colors, ax=panels, label="activation", shrink=0.8)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), handlelength=1.2)


def _clock_text(motion: BodyMotion, step: int, speed: float) -> str:
    text = f"{(step + 1) * motion.dt:.2f} s"
    if speed != 1:
        text += f", {speed:g} × real time"
    return f"{text}\n{motion.epochs[step]}" if motion.epochs else text

"""Movies of bodies, several side by side."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.animation import FuncAnimation
from matplotlib.axes import Axes

from popsim._checks import check_positive
from popsim.analysis.figures.bodies import BodyArtists, BodyMotion, BodyScale

__all__ = ["Playback", "animate_body"]


@dataclasses.dataclass(frozen=True)
class Playback:
    """How a movie is played.

    **Arguments:**

    - `speed`: seconds of the trial per second of the movie: 1 is real time, 0.25 slow motion.
    - `frames_per_second`: the number of pictures per second of the movie.
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

    All have the same view, colours of muscles and length of force. The figure is laid out once, so that the
    axes hold still.

    **Arguments:**

    - `axes`: axes to draw into, all of one figure; for muscles one colour bar is added beside them.
    - `motions`: for each axes the trials that are played one after another, see `body_motion`. Trials that
        are played together have the same number of steps.
    - `titles`: a title for each axes; empty for none.
    - `playback`: the speed; by default real time, at 25 frames per second.

    **Returns:** the animation; keep a reference until it is shown or saved, see `save_animation`.
    """
    panels, playback = list(np.ravel(np.asarray(axes, object))), playback or Playback()
    _check_motions(len(panels), motions)
    if titles and len(titles) != len(panels):
        raise ValueError(f"`titles` must be one for each of {len(panels)} axes, got {len(titles)}.")
    scale = BodyScale.of([motion for of_panel in motions for motion in of_panel])
    drawings = [
        BodyArtists(ax, of_panel[0], scale, trail=playback.trail)
        for ax, of_panel in zip(panels, motions, strict=True)
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
        for drawing, clock, of_panel in zip(drawings, clocks, motions, strict=True):
            drawing.show(of_panel[index], step)
            clock.set_text(_clock_text(of_panel[index], step, playback.speed))
        return moving

    show(frames[-1])
    figure: Any = panels[0].get_figure()
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
    interval: Any = 1000 / playback.frames_per_second
    return FuncAnimation(figure, show, frames=frames, interval=interval, blit=True, cache_frame_data=False)


def _check_motions(n_panels: int, motions: Sequence[Sequence[BodyMotion]]) -> None:
    if n_panels == 0 or len(motions) != n_panels or not all(len(of_panel) for of_panel in motions):
        raise ValueError(
            f"`motions` must be one trial or more for each of {n_panels} axes, "
            f"got {[len(of_panel) for of_panel in motions]}."
        )
    lengths = [[(motion.n_steps, motion.dt) for motion in of_panel] for of_panel in motions]
    if any(of_panel != lengths[0] for of_panel in lengths):
        raise ValueError(f"`motions` must have trials of the same (steps, dt) in all axes, got {lengths}.")
    for of_panel in motions:
        if any(_parts(motion) != _parts(of_panel[0]) for motion in of_panel):
            raise ValueError("`motions` of one axes must be of one body in one task.")


def _parts(motion: BodyMotion) -> tuple[Any, ...]:
    """Return what there is to draw."""
    n_muscles = None if motion.activation is None else motion.activation.shape[1]
    return motion.skeleton.shape[1], n_muscles, len(motion.muscles), motion.target is None


def _add_keys(panels: list[Axes], motion: BodyMotion, scale: BodyScale) -> None:
    """Add a legend below all panels, and a colour bar beside them if there are muscles."""
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

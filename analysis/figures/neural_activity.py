"""Figures of neural activity."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from popsim.analysis._arrays import check_axes
from popsim.analysis.figures import style
from popsim.analysis.figures.style import COLORS

__all__ = [
    "draw_hidden_activity",
    "draw_raster",
    "draw_state_space",
    "draw_rotation_plane",
    "draw_demixed_component",
    "draw_explained_variance",
    "draw_tangling",
    "draw_tuning_curves",
    "draw_preferred_directions",
    "draw_decoding",
    "draw_cross_temporal_decoding",
]


def draw_hidden_activity(ax: Axes, hidden: Float[np.ndarray, "time unit"], *, dt: float) -> Axes:
    """Draw the activity of all units as a heat map, sorted by the time of their largest magnitude."""
    order = np.argsort(np.argmax(np.abs(hidden), axis=0), kind="stable")
    n_steps, n_units = hidden.shape
    extent = (0, n_steps * dt, n_units + 0.5, 0.5)
    style.draw_signed_map(ax, hidden[:, order].T, label="activity", extent=extent)
    ax.set(xlabel="time (s)", ylabel="unit (by time of peak)")
    return ax


def draw_raster(ax: Axes, spikes: Float[np.ndarray, "time unit"], *, dt: float) -> Axes:
    """Draw a tick for each spike, a row for each unit.

    **Arguments:**

    - `spikes`: of one trial, or of one unit with an axis of trials in place of that of units.
    """
    steps, units = np.nonzero(np.asarray(spikes))
    ax.plot(dt * steps, units + 1, "|k", markersize=3, markeredgewidth=0.6)
    n_steps, n_units = spikes.shape
    style.extend_limits(ax, x=(0, dt * n_steps), y=(0.5, n_units + 0.5))
    ax.set(xlabel="time (s)", ylabel="unit")
    return ax


def draw_state_space(
    ax: Axes,
    projections: Float[np.ndarray, "trial time component"],
    *,
    direction: Float[np.ndarray, " trial"] | None = None,
    explained: Float[np.ndarray, " component"] | None = None,
) -> Axes:
    """Draw a line for each trial through two or three components, from a ring to a dot.

    A key above the axes says so, and shows the colours of four directions if directions are given.

    **Arguments:**

    - `ax`: axes to draw into; for three components with `subplot_kw={"projection": "3d"}`.
    - `projections`: of one member, such as `principal_components(hidden).projections[0, :, :, :2]`.
    - `explained`: share of the variance of each component, for the axis labels.
    """
    n_components = projections.shape[2]
    n_dimensions = 3 if ax.name == "3d" else 2
    if n_components != n_dimensions:
        raise ValueError(
            f"`projections` must have {n_dimensions} components, as `ax` has dimensions, got {n_components}."
        )
    colors = trial_colors(direction, projections.shape[0])
    for trial, color in zip(projections, colors, strict=True):
        _draw_path(ax, trial, color)
        ax.plot(*trial[-1:].T, "o", color=color, markersize=3.5, zorder=3)
    for index, axis in enumerate("xyz"[:n_components]):
        fraction = "" if explained is None else f" ({100 * explained[index]:.0f} %)"
        ax.set(**{f"{axis}label": f"component {index + 1}{fraction}", f"{axis}ticks": []})
        if n_dimensions == 3:
            getattr(ax, f"{axis}axis").labelpad = -12  # moves the label to where the tick labels would be
    if n_dimensions == 2:
        ax.set_aspect("equal", adjustable="datalim")
    _add_key(ax, with_directions=direction is not None)
    return ax


def _draw_path(ax: Axes, trial: Float[np.ndarray, "time component"], color: Any) -> None:
    ax.plot(*trial.T, color=color, linewidth=1.0)
    ax.plot(*trial[:1].T, "o", color=color, markersize=3.5, markerfacecolor="white", zorder=3)


def _add_key(ax: Axes, *, with_directions: bool) -> None:
    ring = Line2D([], [], color="0.3", marker="o", markersize=3.5, markerfacecolor="white", linewidth=0.0)
    dot = Line2D([], [], color="0.3", marker="o", markersize=3.5, linewidth=0.0)
    handles = {"first step": ring, "last step": dot}
    if with_directions:
        quarters = np.arange(4) * np.pi / 2
        for angle, color in zip(quarters, style.direction_colors(quarters), strict=True):
            handles[f"direction {np.degrees(angle):.0f}°"] = Line2D([], [], color=color)
    ax.legend(
        handles.values(),
        handles.keys(),
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=len(handles) // 2,
        frameon=False,
        fontsize=6,
        handlelength=1.0,
        columnspacing=1.0,
    )


def trial_colors(
    direction: Float[np.ndarray, " trial"] | None, n_trials: int
) -> Float[np.ndarray, "trial 4"]:
    """Return the colour of each trial: that of its direction in rad, or grey."""
    if direction is None:
        return np.tile([0.3, 0.3, 0.3, 1.0], (n_trials, 1))
    check_axes("direction", direction, f"trial={n_trials}")
    return style.direction_colors(direction)


def draw_rotation_plane(
    ax: Axes,
    projections: Float[np.ndarray, "trial time 2"],
    *,
    direction: Float[np.ndarray, " trial"] | None = None,
    frequency: float | None = None,
) -> Axes:
    """Draw each trial in a plane of jPCA, from a ring to a triangle that points in the final direction.

    **Arguments:**

    - `projections`: of one member and plane, such as `rotations(...).projections[0, :, :, 0]`.
    """
    for trial, color in zip(projections, trial_colors(direction, len(projections)), strict=True):
        _draw_path(ax, trial, color)
        onward = np.degrees(np.arctan2(*(trial[-1] - trial[-2])[::-1]))
        ax.plot(*trial[-1:].T, marker=(3, 0, onward - 90), color=color, markersize=6, zorder=3)
    ax.axhline(0, color="0.85", linewidth=0.6, zorder=0)
    ax.axvline(0, color="0.85", linewidth=0.6, zorder=0)
    ax.set(xlabel="first axis of the plane", ylabel="second axis", xticks=[], yticks=[])
    ax.set_aspect("equal", adjustable="datalim")
    if frequency is not None:
        ax.set_title(f"{frequency:.2g} Hz")
    return ax


def draw_demixed_component(
    ax: Axes,
    projection: Float[np.ndarray, "condition time"],
    *,
    dt: float,
    direction: Float[np.ndarray, " condition"] | None = None,
    part: str | None = None,
    explained: float | None = None,
) -> Axes:
    """Draw one component of one member over time, with a line for each condition.

    **Arguments:**

    - `projection`: such as `demixed["direction"].projections[0, ..., 0]`, with the levels of all factors in
        one axis; column t is at time (t + 1) dt.
    """
    time = dt * np.arange(1, projection.shape[1] + 1)
    for values, color in zip(projection, trial_colors(direction, len(projection)), strict=True):
        ax.plot(time, values, color=color, linewidth=1.0)
    ax.set(xlabel="time (s)", ylabel="demixed component")
    style.extend_limits(ax, x=(0, time[-1]))
    fraction = None if explained is None else f"{100 * explained:.1f} % of variance"
    ax.set_title(", ".join(text for text in (part, fraction) if text is not None))
    return ax


def draw_explained_variance(ax: Axes, explained: Float[np.ndarray, "member component"]) -> Axes:
    """Draw the explained variance of each component as bars and its cumulative sum as a line.

    Both are means over members. Members are thin lines; the band is one standard deviation over members.

    **Arguments:**

    - `explained`: share of the variance of each component, from 0 to 1, such as
        `principal_components(hidden, n_components=10).explained`.
    """
    number = np.arange(1, explained.shape[1] + 1)
    together = 100 * np.cumsum(explained, axis=1)
    ax.bar(number, 100 * explained.mean(axis=0), color="0.8", label="each")
    style.draw_members_and_spread(ax, number, together)
    ax.plot(number, together.mean(axis=0), "o-", color=COLORS[0], markersize=3, label="together")
    ax.set(xlabel="component", ylabel="explained variance (%)")
    style.extend_limits(ax, y=(0, 105))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="center right", title=f"mean of {len(explained)} members", title_fontsize=7)
    return ax


def draw_tangling(
    ax: Axes,
    reference: Float[np.ndarray, "member trial time"],
    tangling: Float[np.ndarray, "member trial time"],
    *,
    reference_name: str = "output",
    name: str = "network",
) -> Axes:
    """Draw the tangling of a network against the tangling of its output.

    Each point is one time of a trial, each colour a member. After Russo et al. 2018, Neuron 97:953; not
    compared with the paper.

    **Arguments:**

    - `reference`: tangling of the output, such as muscles or the hand, in 1/s^2; on the horizontal axis.
    - `tangling`: tangling of the network at the same times, in 1/s^2.
    """
    largest = 1.05 * max(float(reference.max()), float(tangling.max()))
    ax.plot([0, largest], [0, largest], color="0.4", linestyle="--", linewidth=0.8)
    for index, (across, up) in enumerate(zip(reference, tangling, strict=True)):
        look = {"color": style.color_of(index), "markersize": 1.5, "alpha": 0.5, "rasterized": True}
        ax.plot(across.ravel(), up.ravel(), ".", **look)
    ax.set(aspect="equal")
    style.extend_limits(ax, x=(0, largest), y=(0, largest))
    ax.set(xlabel=f"tangling of the {reference_name} (1/s²)", ylabel=f"tangling of the {name} (1/s²)")
    ax.ticklabel_format(style="sci", scilimits=(-2, 4))
    return ax


def draw_tuning_curves(
    ax: Axes,
    direction: Float[np.ndarray, " direction"],
    mean: Float[np.ndarray, "direction unit"],
    deviation: Float[np.ndarray, "direction unit"],
    *,
    cosine: Float[np.ndarray, "3 unit"] | None = None,
    names: Sequence[str] | None = None,
) -> Axes:
    """Draw the mean activity of units over directions, with the standard deviation over trials.

    **Arguments:**

    - `mean`, `deviation`: from `neural_activity.tuning_curves`, for units of one member; where a
        deviation is NaN, as of a single trial, there is no bar.
    - `cosine`: baseline, depth and preferred direction (rad) of each unit, drawn as dotted cosines; None for
        lines from point to point.
    """
    fine = np.linspace(-np.pi, np.pi, 181)
    for index in range(mean.shape[1]):
        color, label = style.color_of(index), style.name_of(names, index, "unit")
        points = (np.degrees(direction), mean[:, index], deviation[:, index])
        ax.errorbar(*points, fmt="o" if cosine is not None else "o-", color=color, markersize=3, label=label)
        if cosine is not None:
            baseline, depth, preferred = cosine[:, index]
            fitted = baseline + depth * np.cos(fine - preferred)
            ax.plot(np.degrees(fine), fitted, ":", color=color, linewidth=1.0)
    ax.set(xlabel="direction (°)", ylabel="activity", xticks=[-180, -90, 0, 90, 180])
    half_width = np.nan_to_num(deviation)
    low, high = np.min(mean - half_width), np.max(mean + half_width)
    style.extend_limits(ax, x=(-190, 190), y=[high + 0.3 * (high - low)])  # room for the legend
    ax.legend(loc="upper center", ncols=3, columnspacing=1.0, handlelength=1.0)
    return ax


def draw_preferred_directions(
    ax: Axes,
    preferred: Float[np.ndarray, "member muscle"],
    depth: Float[np.ndarray, "member muscle"],
    *,
    names: Sequence[str] | None = None,
) -> Axes:
    """Draw the preferred direction of each muscle of each member as a line with the length of the depth.

    **Arguments:**

    - `ax`: axes to draw into; right and up are the directions 0 and pi / 2.
    - `preferred`, `depth`: see `popsim.analysis.neural_activity.CosineTuning`.
    """
    farthest = 1.1 * float(np.max(depth))
    x, y = depth * np.cos(preferred), depth * np.sin(preferred)
    for index in range(preferred.shape[1]):
        look: Any = {"color": f"C{index}", "lw": 0.8, "marker": "o", "ms": 2.5, "markevery": [1]}
        zeros = np.zeros(len(preferred))
        lines = ax.plot(np.stack([zeros, x[:, index]]), np.stack([zeros, y[:, index]]), **look)
        lines[0].set_label(style.name_of(names, index, "muscle"))
    ax.set_aspect("equal")
    style.extend_limits(
        ax, x=(-1.4 * farthest, 1.4 * farthest), y=(-1.8 * farthest, farthest)
    )  # room for the legend
    ax.locator_params(nbins=5)
    ax.set(xlabel="depth of tuning to the right", ylabel="depth of tuning away")
    ax.legend(fontsize=6, handlelength=1.0, columnspacing=1.0, loc="lower center", ncols=2)
    return ax


def draw_decoding(
    ax: Axes,
    time: Float[np.ndarray, " time"],
    accuracy: Float[np.ndarray, "member time"],
    *,
    chance: float,
    shuffled: Float[np.ndarray, "shuffle member time"] | None = None,
) -> Axes:
    """Draw decoding accuracy over time: members thin, their mean thick, a band of one standard deviation.

    **Arguments:**

    - `accuracy`: from `popsim.analysis.neural_activity.decode_condition`.
    - `shuffled`: accuracy with shuffled conditions; the grey band is the middle 95 % of shuffles and members.
        None for no band.
    """
    if shuffled is not None:
        low, high = np.quantile(shuffled.reshape(-1, len(time)), [0.025, 0.975], axis=0)
        ax.fill_between(time, low, high, color="0.8", linewidth=0, label="shuffled, 95 %")
    ax.axhline(chance, color="0.4", linestyle="--", linewidth=0.8, label="chance")
    style.draw_members_and_spread(ax, time, accuracy)
    label = f"mean of {len(accuracy)} members"
    ax.plot(time, accuracy.mean(axis=0), color=COLORS[0], linewidth=1.5, label=label)
    ax.set(xlabel="time (s)", ylabel="decoding accuracy")
    style.extend_limits(ax, x=(0, time[-1]), y=(0, 1.05))
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 0.25))
    return ax


def draw_cross_temporal_decoding(
    ax: Axes, time: Float[np.ndarray, " time"], accuracy: Float[np.ndarray, "time time"], *, chance: float
) -> Axes:
    """Draw the accuracy of a decoder fitted at one time (vertical) and tested at another (horizontal).

    **Arguments:**

    - `time`: in s, evenly spaced.
    - `accuracy`: of one member, or the mean over members, from
        `popsim.analysis.neural_activity.decode_condition_across_times`.
    - `chance`: accuracy by chance, the low end of the colours unless an accuracy is lower.
    """
    half = (time[1] - time[0]) / 2 if len(time) > 1 else 0.5
    first, last = time[0] - half, time[-1] + half
    image = ax.imshow(
        accuracy,
        origin="lower",
        cmap="viridis",
        vmin=min(chance, np.min(accuracy)),
        vmax=1.0,
        extent=(first, last, first, last),
        interpolation="nearest",
    )
    ax.plot([first, last], [first, last], color="white", linewidth=0.6, linestyle=":")
    ax.set(xlabel="tested at (s)", ylabel="fitted at (s)")
    style.extend_limits(ax, x=(first, last), y=(first, last))
    ax.figure.colorbar(image, ax=ax, label=f"accuracy (chance {chance:.2g})", shrink=0.85)
    return ax

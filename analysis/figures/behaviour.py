"""Figures of movements, choices and reaction times."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.behaviour import (
    ChoiceFractions,
    ChronometricCurve,
    ChronometricCurvesByOutcome,
    ConditionalAccuracy,
    LapsingPsychometricFit,
    PsychometricFit,
    end_point_ellipse,
    maximum_perpendicular_deviation,
    perpendicular_deviation,
)
from popsim.analysis.figures import style

__all__ = [
    "draw_direction_key",
    "draw_hand_paths",
    "draw_mean_speed",
    "draw_speed_profiles",
    "draw_path_deviation",
    "draw_end_point_ellipses",
    "draw_muscle_activations",
    "draw_channels",
    "draw_psychometric_curves",
    "draw_chronometric_curves",
    "draw_chronometric_curves_by_outcome",
    "draw_conditional_accuracy",
]


def draw_hand_paths(
    ax: Axes,
    positions: Float[np.ndarray, "member trial time 2"],
    starts: Float[np.ndarray, "trial 2"],
    targets: Float[np.ndarray, "trial 2"],
    *,
    target_radius: float = 0.005,
) -> Axes:
    """Draw paths of the hand in the plane, coloured by the direction of the target; one line per member."""
    from matplotlib.patches import Circle

    toward = targets - starts
    colors = style.direction_colors(np.arctan2(toward[:, 1], toward[:, 0]))
    for trial, color in enumerate(colors):
        ax.add_patch(
            Circle(tuple(100 * targets[trial]), 100 * target_radius, facecolor="0.88", edgecolor="0.6")
        )
        for path in positions[:, trial]:
            path_from_start = 100 * np.concatenate([starts[trial][None], path])
            ax.plot(*path_from_start.T, color=color, linewidth=0.8, solid_capstyle="round")
    ax.plot(*(100 * starts.T), "o", color="black", markersize=3)
    ax.set(xlabel="x (cm)", ylabel="y (cm)", aspect="equal")
    ax.margins(0.08)
    return ax


def draw_direction_key(ax: Axes, *, label: str = "direction") -> Axes:
    """Draw a key of `direction_colors`: a ray toward each of eight directions, in its colour.

    **Arguments:**

    - `ax`: small axes of the key, such as `ax.inset_axes((1.02, 0.75, 0.25, 0.25))` to the right of others.
    """
    angles = np.arange(8) * np.pi / 4
    for angle, color in zip(angles, style.direction_colors(angles), strict=True):
        toward = np.array([np.cos(angle), np.sin(angle)])
        ax.plot(*np.outer(toward, (0.3, 1.0)), color=color, linewidth=2.0, solid_capstyle="round")
    ax.set_title(label, fontsize=7, pad=2)
    ax.set(aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.patch.set_visible(False)
    ax.margins(0.1)
    return ax


def draw_mean_speed(
    ax: Axes, speed: Float[np.ndarray, "member trial time"], *, dt: float, label: str, color: str
) -> Axes:
    """Draw tangential speed over time: the mean over members, and a band from the slowest to the fastest.

    Each member is averaged over trials first. Call once per ensemble.
    """
    means = speed.mean(axis=1)
    time = dt * np.arange(1, speed.shape[-1] + 1)
    course = means.mean(axis=0), means.min(axis=0), means.max(axis=0)
    style.draw_band(ax, time, course, color=color, label=label, alpha=0.2)
    ax.set(xlabel="time (s)", ylabel="hand speed (m/s)")
    style.extend_limits(ax, x=[0.0], y=[0.0])
    return ax


def draw_speed_profiles(
    ax: Axes, speed: Float[np.ndarray, "member trial time"], *, dt: float, label_members: bool = True
) -> Axes:
    """Draw speed over time: the mean of each member over trials, with a band of one standard deviation."""
    time = dt * np.arange(1, speed.shape[-1] + 1)
    for index, profiles in enumerate(speed):
        mean, spread = profiles.mean(axis=0), profiles.std(axis=0)
        label = f"member {index}" if label_members else ""
        style.draw_band(ax, time, (mean, mean - spread, mean + spread), color=None, label=label, alpha=0.12)
    ax.set(xlabel="time (s)", ylabel="hand speed (m/s)")
    style.extend_limits(ax, x=(0, time[-1]), y=[0])
    if label_members:
        ax.legend()
    return ax


DEVIATION_COLOR = "#D55E00"


def draw_path_deviation(
    ax: Axes,
    position: Float[np.ndarray, "time 2"],
    start: Float[np.ndarray, "2"],
    target: Float[np.ndarray, "2"],
    *,
    color: str = "#0072B2",
) -> Axes:
    """Draw a path of the hand, the straight line to its target, and the largest deviation between them.

    The start is at the origin and the target straight up, so that deviations to the left are on the left.
    """
    starts, targets, path = start[None], target[None], position[None]
    deviation = perpendicular_deviation(path, starts, targets)[0]
    largest = float(maximum_perpendicular_deviation(path, starts, targets)[0])
    way = target - start
    distance = float(np.linalg.norm(way))
    forward = (position - start) @ way / distance
    at = forward[np.argmax(np.abs(deviation))]
    ax.plot([0, 0], [0, 100 * distance], color="0.6", linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    ax.plot(np.append(0, -100 * deviation), np.append(0, 100 * forward), color=color, zorder=2)
    ax.plot([0, -100 * largest], [100 * at] * 2, color=DEVIATION_COLOR, linewidth=1.5, zorder=3)
    ax.annotate(
        f"{100 * largest:+.2g} cm",
        (-50 * largest, 100 * at),
        xytext=(0, 2),
        textcoords="offset points",
        color=DEVIATION_COLOR,
        ha="center",
        va="bottom",
        fontsize=7,
    )
    ax.plot(0, 0, "o", color="black", markersize=3)
    ax.plot(0, 100 * distance, "o", color="0.6", markersize=6, zorder=1)
    ax.set(xlabel="to the right of the line (cm)", ylabel="to the target (cm)", aspect="equal")
    farthest = max(30 * distance, *(1.2 * abs(x) for x in ax.dataLim.intervalx))
    style.extend_limits(ax, x=(-farthest, farthest))
    return ax


def draw_end_point_ellipses(
    ax: Axes,
    errors: Float[np.ndarray, "target trial 2"],
    directions: Float[np.ndarray, " target"],
    *,
    coverage: float = 0.95,
) -> Axes:
    """Draw the end points of movements relative to their targets, with an ellipse per target.

    **Arguments:**

    - `errors`: end points minus their target, in m.
    - `coverage`: as for `popsim.analysis.behaviour.end_point_ellipse`.
    """
    ellipse = end_point_ellipse(errors, coverage=coverage)
    around = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(around), np.sin(around)])
    for index, color in enumerate(style.direction_colors(directions)):
        ax.plot(*(1000 * errors[index].T), ".", color=color, markersize=2, alpha=0.5)
        turn = ellipse.angle[index]
        rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        outline = rotation @ (ellipse.semi_axes[index][:, None] * circle) + ellipse.center[index][:, None]
        ax.plot(*(1000 * outline), color=color, linewidth=1.0)
    ax.plot(0, 0, "+", color="black", markersize=7)
    ax.set(xlabel="x from the target (mm)", ylabel="y from the target (mm)", aspect="equal")
    return ax


def draw_muscle_activations(
    ax: Axes, activation: Float[np.ndarray, "time muscle"], *, dt: float, names: Sequence[str] | None = None
) -> Axes:
    """Draw the activation of each muscle over time."""
    time = dt * np.arange(1, len(activation) + 1)
    n_muscles = activation.shape[1]
    for index, course in enumerate(activation.T):
        ax.plot(time, course, color=f"C{index}", label=style.name_of(names, index, "muscle"))
    ax.set(xlabel="time (s)", ylabel="activation")
    style.extend_limits(ax, x=(0, time[-1]), y=[0])
    ax.legend(ncols=2 if n_muscles > 4 else 1, handlelength=1.2)
    return ax


def draw_channels(
    ax: Axes,
    channels: Float[np.ndarray, "time channel"],
    *,
    dt: float,
    first_at: float | None = None,
    targets: Float[np.ndarray, "time channel"] | None = None,
) -> Axes:
    """Draw each channel over time, and its target dashed in the same colour.

    Colours repeat after eight channels.

    **Arguments:**

    - `first_at`: time of the first value in s: 0 for inputs, which apply from the start of a step; None for
        `dt`, for outputs and states, which are those at the end of a step.
    - `targets`: target values, NaN where they do not count; None for no targets.
    """
    times = dt * np.arange(channels.shape[0]) + (dt if first_at is None else first_at)
    for index, values in enumerate(channels.T):
        color = style.color_of(index)
        ax.plot(times, values, color=color, linewidth=0.9)
        if targets is not None:
            ax.plot(times, targets[:, index], color=color, linewidth=1.4, linestyle=(0, (2, 1)), alpha=0.6)
    style.extend_limits(ax, x=(0, dt * channels.shape[0]))
    return ax


def draw_psychometric_curves(
    ax: Axes,
    shares: ChoiceFractions,
    fit: PsychometricFit | LapsingPsychometricFit,
    *,
    names: Sequence[str] | None = None,
) -> Axes:
    """Draw the share of choices at each coherence and the fitted curve, with one colour per member.

    Error bars are one standard error over trials, sqrt(p (1 - p) / n) of the fitted curve.

    **Arguments:**

    - `shares`: choices of each member, see `popsim.analysis.behaviour.choice_fractions`.
    - `fit`: fit to the same choices, with one stream of evidence.
    """
    farthest = 1.1 * float(np.abs(shares.coherence).max())
    fine = np.linspace(-farthest, farthest, 201)
    at_levels = fit.share_right(shares.coherence[:, None])
    errors = np.sqrt(at_levels * (1 - at_levels) / shares.n_trials)
    for index, curve in enumerate(np.atleast_2d(fit.share_right(fine[:, None]))):
        ax.plot(fine, curve, color=style.color_of(index), linewidth=0.9, label=style.name_of(names, index))
    hollow = {"fmt": "o", "mfc": "none", "mew": 0.8, "lw": 0.8, "label": None}
    style.draw_member_points(ax, shares.coherence, shares.fraction, errors, names=names, **hollow)
    ax.axhline(0.5, color="0.8", linewidth=0.6, zorder=0)
    ax.axvline(0.0, color="0.8", linewidth=0.6, zorder=0)
    ax.set(xlabel="coherence", ylabel="share of choices to the right", yticks=[0, 0.5, 1])
    style.extend_limits(ax, x=(-farthest, farthest), y=(-0.03, 1.03))
    ax.legend(loc="lower right", handlelength=1.2)
    return ax


def draw_chronometric_curves(
    ax: Axes, curve: ChronometricCurve, *, names: Sequence[str] | None = None
) -> Axes:
    """Draw the mean decision time at each coherence with standard errors over trials, a colour per member.

    **Arguments:**

    - `curve`: curve of each member, see `popsim.analysis.behaviour.chronometric_curve`.
    """
    style.draw_member_points(ax, curve.coherence, 1000 * curve.mean, 1000 * curve.standard_error, names=names)
    return _with_times(ax, "coherence", "time to decide (ms)")


def draw_chronometric_curves_by_outcome(
    ax: Axes, curves: ChronometricCurvesByOutcome, *, names: Sequence[str] | None = None
) -> Axes:
    """Draw the mean reaction time in each condition, correct ones solid and errors dashed.

    Bars are standard errors over trials; there are none for a single response. Each member has a colour.

    **Arguments:**

    - `curves`: those of each member, see `popsim.analysis.behaviour.chronometric_curves_by_outcome`.
    """
    for curve, look in ((curves.correct, {}), (curves.error, {"fmt": "o--", "mfc": "white", "label": None})):
        means, errors = 1000 * curve.mean, 1000 * curve.standard_error
        style.draw_member_points(ax, curve.coherence, means, errors, names=names, **look)
    ax.plot([], [], "o--", ms=3, mfc="white", lw=0.9, color="0.4", label="errors")
    return _with_times(ax, "condition", "reaction time (ms)")


def _with_times(ax: Axes, x: str, times: str) -> Axes:
    ax.set(xlabel=x, ylabel=times)
    style.extend_limits(ax, y=[0])
    ax.legend(loc="lower center", ncols=2, handlelength=1.2)
    return ax


def draw_conditional_accuracy(
    ax: Axes, accuracy: ConditionalAccuracy, *, names: Sequence[str] | None = None
) -> Axes:
    """Draw the accuracy of fast to slow responses with standard errors over trials, a colour per member.

    **Arguments:**

    - `accuracy`: that of each member, see `popsim.analysis.behaviour.conditional_accuracy`.
    """
    times = 1000 * accuracy.time
    style.draw_member_points(ax, times, accuracy.accuracy, accuracy.standard_error, names=names)
    ax.set(xlabel="reaction time (ms)", ylabel="share of correct responses")
    style.extend_limits(ax, x=[0], y=(0, 1.03))
    ax.legend(loc="lower right", handlelength=1.2)
    return ax

"""Figures of learning."""

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes

from popsim.analysis._arrays import AnyArray, Batches, MemberCourses
from popsim.analysis.figures.style import draw_band, extend_limits
from popsim.analysis.learning import LearningCurve, TwoStateTimeCourse
from popsim.analysis.statistics.intervals import IntervalMethod, interval_method, mean_interval

__all__ = [
    "draw_ensemble_band",
    "draw_learning_bands",
    "draw_learning_curves",
    "draw_loss_bands",
    "draw_loss_line",
    "draw_adaptation_time_course",
    "draw_two_state_time_course",
]


MOST_MARKED = 30  # batches with a dot each
FEWEST_JOINED = 3  # batches that a line joins: between two, it would show a course that nobody measured
BatchScale = Literal["log", "linear"]


def draw_ensemble_band(
    ax: Axes,
    x: Float[np.ndarray, " x"],
    values: Float[np.ndarray, "member x"],
    *,
    method: IntervalMethod | None = None,
    color: str | None = None,
    label: str = "mean",
) -> Axes:
    """Draw the mean over members, and a band that the legend names.

    Members come first, as in `popsim.analysis.statistics`: give `.T` of values with axes (batch, member).

    **Arguments:**

    - `x`, `values`: coordinates, and the values of each member there, in the units to be shown.
    - `method`: method of the band, see `popsim.analysis.statistics.mean_interval`. None for a 95 % interval:
        "log t" if all values are above zero, so that the band is, too, and else "t".
    - `label`: label of the line; the legend adds the kind of band and the number of members.
    """
    method = interval_method(values) if method is None else method
    interval = mean_interval(values, method=method)
    band = "95 % interval" if method in ("t", "log t") else method
    draw_band(ax, x, interval, color=color, label=f"{label}, {band} (n = {len(values)})")
    ax.legend()
    return ax


def draw_learning_bands(
    ax: Axes,
    batch: Batches,
    curve: LearningCurve,
    *,
    label: str = "training",
    color: str | None = None,
    x_scale: BatchScale = "log",
) -> Axes:
    """Draw the mean over members of a loss, with the band of its confidence interval, on a logarithmic axis.

    The axis is linear if anything drawn is not above zero, such as minus a reward.

    **Arguments:**

    - `curve`: see `popsim.analysis.learning.learning_curve`.
    """
    draw_band(ax, batch + 1, curve, color=color, label=f"{label}, {curve.n_members} members")
    _set_loss_axes(ax, x_scale)
    ax.legend()
    return ax


def draw_learning_curves(
    ax: Axes,
    batch: Batches,
    loss: MemberCourses,
    *,
    label: str = "training",
    color: str | None = None,
    x_scale: BatchScale = "log",
) -> Axes:
    """Draw loss over training batches: members thin, their geometric mean thick, on a logarithmic axis.

    If anything drawn is not above zero, such as minus a reward, the axis is linear and the mean arithmetic.
    The mean omits members with a loss that is not finite at some batch. It has a dot at each batch if there
    are at most 30. One or two batches are dots without a line.
    """
    finite = np.isfinite(loss).all(axis=0)
    mean = _mean_of_members(loss[:, finite])
    name = f"{label}, mean of {finite.sum()} members"
    marker = "." if len(batch) <= MOST_MARKED else ""
    (line,) = ax.plot(batch + 1, mean, color=color, linewidth=1.5, marker=marker, zorder=2.1, label=name)
    members = ax.plot(batch + 1, loss, color=line.get_color(), linewidth=0.4, alpha=0.4)
    if len(batch) < FEWEST_JOINED:
        line.set(linestyle="")
        for member in members:
            member.set(linestyle="", marker=".", markersize=2)
    _set_loss_axes(ax, x_scale)
    return ax


def draw_loss_bands(
    ax: Axes, batch: Batches, loss: MemberCourses, *, label: str, color: str, x_scale: BatchScale = "log"
) -> Axes:
    """Draw loss over training batches: the geometric mean over members, and a band from lowest to highest.

    As in `draw_learning_curves`, but without lines of members. Call once per ensemble.
    """
    finite = loss[:, np.isfinite(loss).all(axis=0)].astype(np.float64)
    mean = _mean_of_members(finite)
    marker, width = ("o", 2) if len(batch) == 1 else ("", 0)
    ax.plot(batch + 1, mean, color=color, marker=marker, markersize=3, label=label)
    low, high = finite.min(axis=1), finite.max(axis=1)
    ax.fill_between(batch + 1, low, high, color=color, alpha=0.2, linewidth=width)
    _set_loss_axes(ax, x_scale)
    return ax


def _mean_of_members(loss: MemberCourses) -> Float[np.ndarray, " batch"]:
    """Return the geometric mean over members, or the arithmetic one if some loss is not above zero."""
    is_positive = bool(np.all(loss > 0))
    return np.exp(np.mean(np.log(loss), axis=1)) if is_positive else np.mean(loss, axis=1)


def _set_loss_axes(ax: Axes, x_scale: BatchScale) -> None:
    y_scale = "log" if ax.dataLim.y0 > 0 else "linear"  # of all that was drawn into these axes
    ax.set(xlabel="training batch", ylabel="loss", yscale=y_scale, xscale=x_scale)
    ax.margins(x=0.02)
    ax.update_datalim([(1.0, 0.0)], updatey=False)
    ax.autoscale_view()


def draw_loss_line(
    ax: Axes,
    positions: Float[AnyArray, " point"],
    loss: Float[AnyArray, "point member"],
    *,
    ends: tuple[str, str] = ("start", "end"),
    color: str = "#0072B2",
) -> Axes:
    """Draw the loss along a line in parameter space, on a logarithmic axis, with a line for each member.

    **Arguments:**

    - `positions`, `loss`: from `loss_along_line`; losses above zero.
    - `ends`: names of the positions 0 and 1, which are marked.
    """
    ax.plot(np.asarray(positions), np.asarray(loss), color=color, linewidth=0.8)
    for at, name in enumerate(ends):
        ax.axvline(at, color="0.6", linewidth=0.7, linestyle="--", zorder=0)
        ax.text(at, 1.0, name, transform=ax.get_xaxis_transform(), ha="center", va="bottom", fontsize=7)
    ax.set(xlabel="position on the line", ylabel="loss", yscale="log")
    return ax


def draw_adaptation_time_course(
    ax: Axes,
    batch: Batches,
    values: MemberCourses,
    *,
    label: str,
    color: str | None = None,
    confidence: float = 0.95,
) -> Axes:
    """Draw the mean over members, with the band of its confidence interval, of a measure of any sign.

    The band is as in `draw_ensemble_band`, but values are (batch, member), and batches are counted from 1.

    **Arguments:**

    - `values`: such as the adaptation index, or deviations in cm, in the unit of the axis.
    """
    interval = mean_interval(values.T, method=interval_method(values), confidence=confidence)
    count = batch + 1
    ax.axhline(0, color="0.8", linewidth=0.6, zorder=0)
    draw_band(ax, count, interval, color=color, label=label)
    ax.set(xlabel="training batch")
    extend_limits(ax, x=(float(count[0]), float(count[-1])))
    ax.legend()
    return ax


def draw_two_state_time_course(
    ax: Axes,
    measured: Float[np.ndarray, "trial member"],
    course: TwoStateTimeCourse,
    perturbation: Float[np.ndarray, " trial"],
    is_error_clamp: Bool[np.ndarray, " trial"],
) -> Axes:
    """Draw measured adaptation with the fast state, the slow state and their sum in a fitted model.

    Measurements are dots, lines are the states of the model at each trial; both are means over members. The
    perturbation is grey, and error clamps are shaded.

    **Arguments:**

    - `measured`: adaptation of each member, NaN where it was not measured.
    - `course`: of one or several members, see `popsim.analysis.learning.simulate_two_states`.
    """
    trial = np.arange(1, len(measured) + 1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], is_error_clamp.astype(int), [0]])))
    for first, end in edges.reshape(-1, 2):
        ax.axvspan(first + 0.5, end + 0.5, color="0.93", linewidth=0, zorder=0)
    ax.step(trial, perturbation, where="mid", color="0.65", linewidth=0.8, label="perturbation")
    is_measured = np.isfinite(measured)
    mean = np.where(is_measured, measured, 0.0).sum(axis=1) / np.where(
        is_measured.any(axis=1), is_measured.sum(axis=1), np.nan
    )
    ax.plot(trial, mean, ".", color="0.35", markersize=2.5, label="measured")
    looks = {"fast": ("#E69F00", (0, (3, 1))), "slow": ("#0072B2", (0, (5, 1.5))), "sum": ("black", "-")}
    for (name, (color, dashes)), states in zip(
        looks.items(), (course.fast, course.slow, course.adaptation), strict=True
    ):
        average = states[:-1].reshape(len(trial), -1).mean(axis=1)
        ax.plot(trial, average, color=color, linestyle=dashes, label=name)
    ax.set(xlabel="trial", ylabel="adaptation")
    extend_limits(ax, x=(1, len(trial)))
    ax.legend(ncols=2, handlelength=1.6, columnspacing=1.0)
    return ax
